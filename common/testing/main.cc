// The main function of unit tests. With root's rights the program has its own network with only a
// loopback link: other programs cannot have a port that a test needs, and the test needs nothing of
// the host's network. Without these rights freePort() (test-port.h) still finds a port.
#include <errno.h>
#include <gmock/gmock.h>
#include <sched.h>

#include "common/testing/own-network.h"

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  if (unshare(CLONE_NEWNET) == 0) {
    talos::setLoopbackUp();
  } else {
    KJ_REQUIRE(errno == EPERM, "cannot make a network namespace", strerror(errno));
  }
  return RUN_ALL_TESTS();
}
