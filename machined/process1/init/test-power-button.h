// The event of a power button as the kernel sends it: drivers/acpi/event.c, as seen in a guest.
#pragma once

#include <string>

namespace talos::process1 {

inline std::string powerButtonEvent() {
  std::string event(68, '\0');
  event.replace(0, 1, 1, 68);                 // nlmsg_len
  event.replace(4, 1, 1, 0x1a);               // nlmsg_type: the number assigned to the family
  event.replace(8, 1, 1, 2);                  // nlmsg_seq
  event.replace(16, 2, std::string("\1\1"));  // command, version
  event.replace(20, 1, 1, 48);                // nla_len
  event.replace(22, 1, 1, 1);                 // nla_type
  event.replace(24, 15, "button/power/PB");   // the driver chooses the rest
  event.replace(44, 11, "LNXPWRBN:00");
  event.replace(60, 1, 1, '\x80');
  event.replace(64, 1, 1, 1);
  return event;
}

}  // namespace talos::process1
