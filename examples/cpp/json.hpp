// JSON as manifest.json has it: enough to read what specc wrote, not to judge what others did.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

[[noreturn]] inline void refuse(const std::string& why) {
  std::cerr << why << '\n';
  std::exit(1);
}

inline void check(bool good, const std::string& what) { if (!good) refuse(what + " failed"); }

struct Json {
  std::string name;         // of an object's field
  std::string text;         // of a string; of a number, true, false and null as they stand
  std::vector<Json> items;  // of a list or an object

  const Json& operator[](const std::string& field) const {
    for (const Json& item : items)
      if (item.name == field) return item;
    refuse("manifest.json has no " + field);
  }
  const Json& operator[](size_t i) const { return i < items.size() ? items[i] : (*this)["item " + std::to_string(i)]; }
  double number() const { return std::strtod(text.c_str(), nullptr); }
  int64_t integer() const { return std::strtoll(text.c_str(), nullptr, 10); }
};

inline Json json_from(std::istream& in) {
  auto ahead = [&] { return static_cast<char>((in >> std::ws).peek()); };
  Json value;
  const char first = ahead();
  if (first == '"') {
    in >> std::quoted(value.text);  // names and paths have no escapes but of `"` and of the backslash itself
  } else if (first == '{' || first == '[') {
    in.get();
    while (in && ahead() != '}' && ahead() != ']') {
      std::string name;
      if (first == '{' && in >> std::quoted(name) && ahead() == ':') in.get();
      value.items.push_back(json_from(in));
      value.items.back().name = name;
      if (ahead() == ',') in.get();
    }
    in.get();
  } else {
    while (in && !std::strchr(" \t\r\n,]}", in.peek())) value.text += static_cast<char>(in.get());
  }
  check(bool(in), "reading manifest.json");
  return value;
}
