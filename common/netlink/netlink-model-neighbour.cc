// ModelKernel's neighbours.
#include <errno.h>

#include "common/netlink/netlink-model-lists.h"
#include "common/netlink/netlink-model.h"

namespace talos::netlink {

kj::Vector<Neighbour> ModelKernel::neighbours() {
  kj::Vector<Neighbour> result;
  result.addAll(neighbourList);
  return result;
}

int ModelKernel::add(const Neighbour& wanted, bool replace, kj::String& message) {
  KJ_IF_MAYBE (mistake, mistakeOf(wanted)) {
    message = kj::str("neighbour: ", *mistake);
    return EINVAL;
  }
  if (wanted.link != 0 && device(wanted.link) == nullptr) return ENODEV;
  size_t length = 0;
  if (wanted.link != 0) length = device(wanted.link)->link.hardwareAddress.size();
  bool given = !wanted.hardwareAddress.empty();
  if (given && wanted.hardwareAddress.size() < length) {
    message = kj::str("Invalid link address");
    return EINVAL;
  }
  if (wanted.address.family() == AF_INET6 && !ipv6) return EAFNOSUPPORT;
  if (wanted.link == 0) {
    message = kj::str("Device not specified");
    return EINVAL;
  }
  Neighbour* there = nullptr;
  for (auto& other : neighbourList) {
    if (other.link == wanted.link && other.address == wanted.address) there = &other;
  }
  if (there != nullptr && !replace) return EEXIST;
  if (there == nullptr) {
    there = &neighbourList.add(Neighbour{.link = wanted.link, .address = wanted.address});
  }
  KJ_DEFER(notify({.neighbours = true}));
  bool known = (wanted.state & kKnownStates) != 0;
  if (known && !given && (there->state & kKnownStates) == 0) {
    message = kj::str("No link layer address given");
    return EINVAL;  // a new one stays, without a state
  }
  if (!known) there->hardwareAddress.clear();
  if (known && given) {
    there->hardwareAddress = wanted.hardwareAddress;
    there->hardwareAddress.resize(length);
  }
  there->state = wanted.state;
  there->flags = wanted.flags;
  there->moreFlags = wanted.moreFlags;
  if (wanted.protocol != 0) there->protocol = wanted.protocol;
  return 0;
}

int ModelKernel::remove(const Neighbour& neighbour) {
  if (neighbour.link != 0 && device(neighbour.link) == nullptr) return ENODEV;
  if (neighbour.address.family() == AF_INET6 && !ipv6) return EAFNOSUPPORT;
  if (neighbour.link == 0) return EINVAL;
  bool found = removeIf(neighbourList, [&](auto& other) {
    return other.link == neighbour.link && other.address == neighbour.address;
  });
  if (!found) return ENOENT;
  notify({.neighbours = true});
  return 0;
}

// A link that goes down forgets them all, one that loses its carrier those that are not permanent.
void ModelKernel::dropNeighbours(unsigned link, bool permanentToo) {
  bool any = removeIf(neighbourList, [&](auto& other) {
    return other.link == link && (permanentToo || (other.state & NUD_PERMANENT) == 0);
  });
  if (any) notify({.neighbours = true});
}

}  // namespace talos::netlink
