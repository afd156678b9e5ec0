// Uevents, and their permitted senders.
#include "machined/disk/devices/device-events.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace talos::machined {
namespace {

// Catches: a module that is loaded because a process with CAP_NET_ADMIN has named it, as in
// CVE-2009-1185.
TEST(DeviceEvents, OnlyTheKernelIsBelieved) {
  struct sockaddr_nl sender = {};
  sender.nl_family = AF_NETLINK;
  sender.nl_groups = 1;
  EXPECT_TRUE(isFromKernel(sender));
  sender.nl_pid = 1;
  EXPECT_FALSE(isFromKernel(sender));
  EXPECT_FALSE(isFromKernel({}));
}

}  // namespace
}  // namespace talos::machined
