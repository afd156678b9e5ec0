#include "networkd/plan/change-words.h"

namespace talos::networkd {
namespace {

// The words of netlink::describe() that the index of a link comes behind.
constexpr kj::StringPtr kBefore[] = {"link"_kj, "master"_kj, "bond"_kj, "bridge"_kj, "primary"_kj};

bool isBeforeIndex(kj::ArrayPtr<const char> word) {
  for (auto known : kBefore) {
    if (word == known.asArray()) return true;
  }
  return false;
}

unsigned indexOf(const netlink::Change& change) {
  KJ_SWITCH_ONEOF(change) {
    KJ_CASE_ONEOF(c, netlink::AddLink) {
      return 0;
    }
    KJ_CASE_ONEOF(c, netlink::AddAddress) {
      return c.address.link;
    }
    KJ_CASE_ONEOF(c, netlink::DeleteAddress) {
      return c.address.link;
    }
    KJ_CASE_ONEOF(c, netlink::AddRoute) {
      return c.route.link;
    }
    KJ_CASE_ONEOF(c, netlink::DeleteRoute) {
      return c.route.link;
    }
    KJ_CASE_ONEOF(c, netlink::AddRule) {
      return 0;
    }
    KJ_CASE_ONEOF(c, netlink::DeleteRule) {
      return 0;
    }
    KJ_CASE_ONEOF(c, netlink::AddNeighbour) {
      return c.neighbour.link;
    }
    KJ_CASE_ONEOF(c, netlink::DeleteNeighbour) {
      return c.neighbour.link;
    }
    KJ_CASE_ONEOF(c, netlink::SetLink) {
      return c.index;
    }
    KJ_CASE_ONEOF(c, netlink::SetBond) {
      return c.index;
    }
    KJ_CASE_ONEOF(c, netlink::SetBridge) {
      return c.index;
    }
    KJ_CASE_ONEOF(c, netlink::SetWireguard) {
      return c.index;
    }
    KJ_CASE_ONEOF(c, netlink::DeleteLink) {
      return c.index;
    }
  }
  KJ_UNREACHABLE;
}

}  // namespace

kj::String told(const netlink::Change& change, const Observed& observed) {
  auto text = netlink::describe(change);
  kj::Vector<kj::String> parts;
  bool index = false;  // the word before says that this one is one
  for (size_t begin = 0; begin < text.size();) {
    auto end = begin;
    while (end < text.size() && text[end] != ' ' && text[end] != ':') ++end;
    auto word = kj::str(text.slice(begin, end));
    auto isIndex = index;
    index = isBeforeIndex(word.asArray());
    if (isIndex) {
      KJ_IF_MAYBE (number, word.tryParseAs<unsigned>()) {
        KJ_IF_MAYBE (link, observed.link(*number)) word = kj::str(link->name);
      }
    }
    if (end < text.size()) word = kj::str(word, text[end]);
    parts.add(kj::mv(word));
    begin = end + 1;
  }
  return kj::strArray(parts, "");
}

kj::String linkOf(const netlink::Change& change, const Observed& observed) {
  KJ_IF_MAYBE (made, change.tryGet<netlink::AddLink>()) return kj::str(made->name);
  KJ_IF_MAYBE (link, observed.link(indexOf(change))) return kj::str(link->name);
  return kj::str();
}

}  // namespace talos::networkd
