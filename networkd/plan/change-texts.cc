#include "networkd/plan/change-texts.h"

namespace talos::networkd {

kj::String describe(const netlink::Change& change, const Observed& observed) {
  return netlink::describe(change, [&](unsigned index) {
    KJ_IF_MAYBE (link, observed.link(index)) return kj::str(link->name);
    return netlink::indexText(index);
  });
}

kj::String linkOf(const netlink::Change& change, const Observed& observed) {
  KJ_IF_MAYBE (made, change.tryGet<netlink::AddLink>()) return kj::str(made->name);
  KJ_IF_MAYBE (link, observed.link(netlink::linkOf(change))) return kj::str(link->name);
  return kj::str();
}

}  // namespace talos::networkd
