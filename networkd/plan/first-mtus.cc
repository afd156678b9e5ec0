#include "networkd/plan/first-mtus.h"

#include <algorithm>

namespace talos::networkd {

namespace {

bool known(const std::vector<FirstMtu>& mtus, unsigned link) {
  return std::any_of(mtus.begin(), mtus.end(), [&](auto& first) { return first.link == link; });
}

// Returns true if a config sets the link's MTU: its own, or its bond's.
bool spokenFor(const Wanted& wanted, const netlink::Link& link) {
  for (auto& want : wanted.links) {
    if (want.name == link.name) return want.mtu != 0 || want.master.size() > 0;
  }
  return link.master != 0;
}

}  // namespace

bool remember(std::vector<FirstMtu>& mtus, const Observed& observed,
              kj::ArrayPtr<const Step> steps) {
  auto before = mtus.size();
  for (auto& step : steps) {
    KJ_IF_MAYBE (set, step.change.tryGet<netlink::SetLink>()) {
      if (set->mtu == nullptr || known(mtus, set->index)) continue;
      KJ_IF_MAYBE (link, observed.link(set->index)) {
        bool hardware = link->group != kMark && !link->loopback();
        if (hardware) mtus.push_back({link->index, link->mtu});
      }
    }
  }
  return mtus.size() != before;
}

bool forget(std::vector<FirstMtu>& mtus, const Wanted& wanted, const Observed& observed) {
  return std::erase_if(mtus, [&](auto& first) {
           KJ_IF_MAYBE (link, observed.link(first.link)) {
             return link->mtu == first.mtu && !spokenFor(wanted, *link);
           }
           return true;
         }) > 0;
}

kj::String format(const std::vector<FirstMtu>& mtus) {
  kj::Vector<kj::String> lines;
  for (auto& first : mtus) lines.add(kj::str(first.link, " ", first.mtu, "\n"));
  return kj::strArray(lines, "");
}

std::vector<FirstMtu> parseFirstMtus(kj::StringPtr text) {
  std::vector<FirstMtu> mtus;
  forEachPair(text, [&](unsigned link, unsigned mtu) {
    if (!known(mtus, link)) mtus.push_back({link, mtu});
  });
  return mtus;
}

void forEachPair(kj::StringPtr text, kj::FunctionParam<void(unsigned, unsigned)> each) {
  while (text.size() > 0) {
    auto end = text.findFirst('\n').orDefault(text.size());
    auto line = kj::str(text.slice(0, end));
    KJ_IF_MAYBE (space, line.findFirst(' ')) {
      auto first = kj::str(line.slice(0, *space)).tryParseAs<unsigned>();
      auto second = kj::StringPtr(line).slice(*space + 1).tryParseAs<unsigned>();
      KJ_IF_MAYBE (one, first) {
        KJ_IF_MAYBE (two, second) each(*one, *two);
      }
    }
    text = text.slice(end < text.size() ? end + 1 : end);
  }
}

}  // namespace talos::networkd
