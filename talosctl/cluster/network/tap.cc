#include "talosctl/cluster/network/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>

#include "common/base/error.h"

namespace talos::cluster {

kj::AutoCloseFd makeTap(kj::StringPtr name) {
  if (name.size() == 0 || name.size() >= IFNAMSIZ) {
    fail(ErrorKind::kInvalidArgument, kj::str("tap device \"", name, "\": the name must have 1 to ",
                                              IFNAMSIZ - 1, " characters"));
  }
  int raw = ::open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (raw < 0) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("tap device \"", name, "\": cannot open /dev/net/tun: ", strerror(errno)));
  }
  kj::AutoCloseFd fd(raw);
  ifreq request{};
  memcpy(request.ifr_name, name.begin(), name.size());
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (::ioctl(fd, TUNSETIFF, &request) < 0) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("tap device \"", name, "\": cannot create it: ", strerror(errno)));
  }
  return fd;
}

}  // namespace talos::cluster
