#include "networkd/control/link-namer.h"

#include "common/base/log.h"

namespace talos::networkd {
namespace {

bool mayBeCard(const netlink::Link& link) {
  return link.kind.size() == 0 && !link.loopback() && link.parent == 0;
}

bool isInUse(const netlink::Link& link, const Observed& observed) {
  if (link.up() || link.master != 0) return true;
  for (auto& address : observed.addresses) {
    if (address.link == link.index) return true;
  }
  return false;
}

struct NamedCard {
  unsigned index;
  kj::StringPtr old;
  kj::String name;
};

void logKept(const NamedCard& card, kj::StringPtr error) {
  log::warn("a card keeps the kernel's name",
            {{"link", card.old}, {"name", card.name}, {"error", error}});
}

}  // namespace

bool LinkNamer::rename(const Observed& observed) {
  kj::Vector<NamedCard> cards;
  kj::HashMap<kj::StringPtr, unsigned> uses;
  for (auto& link : observed.links) {
    if (!mayBeCard(link) || examined.contains(link.index)) continue;
    auto names = host.predictableNames(link);
    if (names.size() == 0 || names[0] == link.name) {
      examined.insert(link.index);
      continue;
    }
    NamedCard card{link.index, link.name, kj::mv(names[0])};
    if (isInUse(link, observed)) {
      examined.insert(card.index);
      logKept(card, "it is in use");
      continue;
    }
    cards.add(kj::mv(card));
  }
  for (auto& card : cards) uses.upsert(card.name, 1, [](unsigned& there, unsigned) { ++there; });
  bool renamed = false;
  for (auto& card : cards) {
    if (KJ_ASSERT_NONNULL(uses.find(card.name)) > 1) {
      examined.insert(card.index);
      logKept(card, "another card would have the same name");
      continue;
    }
    netlink::Change change = netlink::RenameLink{card.index, kj::str(card.name)};
    auto answers = kernel.apply(kj::arrayPtr(&change, 1));
    examined.insert(card.index);
    KJ_IF_MAYBE (failure, answers[0]) {
      logKept(card, failure->reason);
      continue;
    }
    log::info("link renamed", {{"link", card.name}, {"before", card.old}});
    renamed = true;
  }
  return renamed;
}

}  // namespace talos::networkd
