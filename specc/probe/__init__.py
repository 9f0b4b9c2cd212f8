"""What this machine's CPU can do: measured once, remembered under the processor's name."""
