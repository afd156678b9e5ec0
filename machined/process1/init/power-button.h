// The kernel's event for a pressed power button, of the generic netlink family acpi_event. The
// brain looks up the multicast group and opens the socket (machined/brain/wiring.cc); process
// 1 holds it under kPowerButton and reads it, so the button works without the brain.
//
// Process 1 does not parse netlink: it compares a datagram with the only form that this event has.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace talos::process1 {

constexpr char kPowerButton[] = "button/power";

// Returns true for this event. `sender` is the datagram's nl_pid: only the kernel's is 0, and
// another process with CAP_NET_ADMIN could send to the socket.
bool isPowerButton(const void* datagram, size_t size, uint32_t sender);

}  // namespace talos::process1
