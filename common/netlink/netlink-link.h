// Links as messages of rtnetlink: the part of the codec (netlink-codec.h) that knows their kinds.
// For the codec only. Pure.
#pragma once

#include <linux/netlink.h>

#include "common/netlink/netlink-codec.h"

namespace talos::netlink {

constexpr uint16_t kRequest = NLM_F_REQUEST | NLM_F_ACK;
constexpr uint16_t kCreate = kRequest | NLM_F_CREATE | NLM_F_EXCL;

kj::Array<kj::byte> encodeSetLink(const SetLink& set);
kj::Array<kj::byte> encodeAddLink(const AddLink& add);
kj::Array<kj::byte> encodeRenameLink(const RenameLink& rename);
kj::Array<kj::byte> encodeSetBond(const SetBond& set);
kj::Array<kj::byte> encodeSetBridge(const SetBridge& set);
kj::Maybe<Link> decodeLink(const nlmsghdr* message);

}  // namespace talos::netlink
