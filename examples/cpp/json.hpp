// JSON as manifest.json has it: enough to read what specc wrote, not to judge what others did.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <vector>

[[noreturn]] inline void refuse(const std::string& why) {
  std::cerr << why << '\n';
  std::exit(1);
}

inline void check(bool good, const std::string& what) { if (!good) refuse(what + " failed"); }

struct Json {
  std::map<std::string, Json> fields;
  std::vector<Json> items;
  std::string text;  // of strings and of numbers, true, false and null as they stand
  const Json& operator[](const std::string& name) const {
    auto found = fields.find(name);
    if (found == fields.end()) refuse("manifest.json has no " + name);
    return found->second;
  }
  const Json& operator[](size_t i) const { return items.at(i); }
  double number() const { return std::strtod(text.c_str(), nullptr); }
  int64_t integer() const { return static_cast<int64_t>(number()); }
};

inline Json json_from(const std::string& s, size_t& at) {
  auto skip = [&] { at = std::min(s.find_first_not_of(" \t\r\n:,", at), s.size()); };
  Json value;
  skip();
  if (at == s.size()) refuse("manifest.json ends early");
  if (s[at] == '{' || s[at] == '[') {
    bool object = s[at] == '{';
    for (++at, skip(); at < s.size() && s[at] != '}' && s[at] != ']'; skip()) {
      if (object) {
        std::string name = json_from(s, at).text;
        value.fields[name] = json_from(s, at);
      } else {
        value.items.push_back(json_from(s, at));
      }
    }
    ++at;
  } else if (s[at] == '"') {
    for (++at; at < s.size() && s[at] != '"'; ++at) {
      if (s[at] == '\\') ++at;  // names and paths have no escapes but of `"` and of the backslash itself
      value.text += s[at];
    }
    ++at;
  } else {
    size_t end = std::min(s.find_first_of(" \t\r\n:,]}", at), s.size());
    value.text = s.substr(at, end - at);
    at = end;
  }
  return value;
}

