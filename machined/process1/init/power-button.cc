#include "machined/process1/init/power-button.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <string.h>

namespace talos::process1 {
namespace {

// drivers/acpi/event.c: one message with one attribute, since this family exists (2.6.27).
struct Event {
  struct nlmsghdr message;
  struct genlmsghdr generic;
  struct nlattr attribute;
  char deviceClass[20];
  char busId[15];
  uint32_t type, data;
};
static_assert(sizeof(Event) == 68);
constexpr uint8_t kEventCommand = 1;
constexpr uint16_t kEventAttribute = 1;

}  // namespace

bool isPowerButton(const void* datagram, size_t size, uint32_t sender) {
  Event event;
  if (sender != 0 || size != sizeof(event)) return false;
  memcpy(&event, datagram, sizeof(event));
  return event.message.nlmsg_len == sizeof(event) && event.message.nlmsg_type >= NLMSG_MIN_TYPE &&
         event.generic.cmd == kEventCommand && event.attribute.nla_type == kEventAttribute &&
         event.attribute.nla_len == sizeof(event) - offsetof(Event, attribute) &&
         memcmp(event.deviceClass, kPowerButton, sizeof(kPowerButton) - 1) == 0;
}

}  // namespace talos::process1
