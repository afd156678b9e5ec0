#include "networkd/control/rule-neighbour-reporter.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/wire/store-adapter.h"
#include "networkd/control/network-pace.h"
#include "networkd/plan/status-records.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {

using netlink::Link;
using netlink::Neighbour;
using netlink::Rule;

namespace {
constexpr kj::StringPtr kMoreId = "more"_kj;  // unlike every rule's and neighbour's id, without a
                                              // slash

kj::String moreText(size_t count) {
  return kj::str(count, " more not shown");
}
}  // namespace

// --- rules
ShownRules shownRules(kj::Vector<Rule> rules) {
  ShownRules shown;
  auto count = kj::min(rules.size(), kMostShown);
  shown.more = rules.size() - count;
  std::move(rules.begin(), rules.begin() + count, std::back_inserter(shown.rules));
  return shown;
}

namespace {

void fillRule(rpc::RuleStatusSpec::Builder out, const Rule& rule) {
  out.setFamily(familyName(rule.family));
  out.setPriority(rule.priority);
  out.setRule(netlink::describe(rule));
  if (rule.from) out.setSource(rule.from->toString());
  if (rule.to) out.setDestination(rule.to->toString());
  out.setFwMark(rule.mark);
  out.setFwMask(rule.mask);
  out.setInLinkName(rule.iif.c_str());
  out.setOutLinkName(rule.oif.c_str());
  out.setAction(netlink::ruleActionName(rule.action));
  bool lookup = rule.action == FR_ACT_TO_TBL && !rule.l3mdev;
  if (lookup) out.setTable(netlink::tableName(rule.table));
  out.setTarget(rule.target);
  out.setProtocol(protocolName(rule.protocol));
}

kj::String plainId(const Rule& rule) {
  return kj::str(familyName(rule.family), '/', rule.priority);
}

}  // namespace

Records ruleStatuses(const ShownRules& shown) {
  Records records;
  auto& rules = shown.rules;
  for (size_t begin = 0; begin < rules.size();) {
    auto same = [&](size_t i) {
      return rules[i].family == rules[begin].family && rules[i].priority == rules[begin].priority;
    };
    size_t end = begin + 1;
    while (end < rules.size() && same(end)) ++end;
    for (size_t i = begin; i < end; ++i) {
      auto id = plainId(rules[i]);
      if (end - begin > 1) id = kj::str(id, '/', i - begin + 1);
      insert<rpc::RuleStatusSpec>(records, kj::mv(id), [&](rpc::RuleStatusSpec::Builder spec) {
        fillRule(spec, rules[i]);
      });
    }
    begin = end;
  }
  if (shown.more > 0) {
    insert<rpc::RuleStatusSpec>(records, kj::str(kMoreId), [&](rpc::RuleStatusSpec::Builder spec) {
      spec.setRule(moreText(shown.more));
    });
  }
  return records;
}

// --- neighbours
ShownNeighbours shownNeighbours(const kj::Vector<Link>& links, kj::Vector<Neighbour> neighbours) {
  auto end = std::remove_if(neighbours.begin(), neighbours.end(), [](const Neighbour& each) {
    return each.state == NUD_NONE || each.state == NUD_NOARP;
  });
  size_t all = end - neighbours.begin(), count = kj::min(all, kMostShown);
  std::partial_sort(neighbours.begin(), neighbours.begin() + count, end);
  std::map<unsigned, std::string> names;
  for (auto& link : links) names[link.index] = link.name.cStr();
  ShownNeighbours shown;
  shown.more = all - count;
  for (auto& each : neighbours.slice(0, count)) {
    auto& name = names[each.link];
    if (name.empty()) name = kj::str("link ", each.link).cStr();
    shown.neighbours.push_back({kj::mv(each), name});
  }
  return shown;
}

namespace {

void fillNeighbour(rpc::NeighbourStatusSpec::Builder out, const ShownNeighbours::One& one) {
  auto& neighbour = one.neighbour;
  out.setLinkName(one.link.c_str());
  out.setLinkIndex(neighbour.link);
  out.setAddress(neighbour.address.toString());
  out.setFamily(familyName(neighbour.address.family()));
  out.setHardwareAddress(netlink::hardwareText(neighbour.hardware()));
  out.setState(netlink::neighbourStateName(neighbour.state));
  auto flags = netlink::neighbourFlagNames(neighbour);
  fillTexts(out.initFlags(flags.size()), flags);
  if (neighbour.protocol != 0) out.setProtocol(protocolName(neighbour.protocol));
}

}  // namespace

Records neighbourStatuses(const ShownNeighbours& shown) {
  Records records;
  for (auto& one : shown.neighbours) {
    insert<rpc::NeighbourStatusSpec>(
        records, kj::str(one.link.c_str(), '/', one.neighbour.address),
        [&](rpc::NeighbourStatusSpec::Builder spec) { fillNeighbour(spec, one); });
  }
  if (shown.more > 0) {
    insert<rpc::NeighbourStatusSpec>(
        records, kj::str(kMoreId),
        [&](rpc::NeighbourStatusSpec::Builder spec) { spec.setState(moreText(shown.more)); });
  }
  return records;
}

// --- the loop
struct RuleNeighbourReporter::Look {
  ShownRules rules;
  ShownNeighbours neighbours;
  size_t read = 0, changed = 0;
};

RuleNeighbourReporter::RuleNeighbourReporter(netlink::Kernel& kernel, netlink::Monitor& monitor,
                                             kj::Timer& timer, Publish publish)
    : kernel(kernel), monitor(monitor), timer(timer), publish(kj::mv(publish)) {}

kj::Promise<void> RuleNeighbourReporter::run() {
  Backoff backoff({kPause, kLongestPause});
  for (;;) {
    auto notice = monitor.next();  // before the read, so that no change is missed
    bool good = false;
    auto pause = kPause;
    kj::Maybe<Look> observed;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { observed = look(); })) {
      log::error("cannot read rules and neighbours", {{"error", messageOf(*e)}});
    }
    KJ_IF_MAYBE (there, observed) {
      good = co_await report(*there);
      pause = kj::min(kLongestPause, kPause + kPerRead * there->read + kPerWrite * there->changed);
    }
    observed = nullptr;  // may stay unused for hours
    if (good) {
      backoff.reset();
      co_await notice;
    } else {
      pause = kj::max(pause, backoff.next());
    }
    co_await timer.afterDelay(pause);
    (void)monitor.take();  // The read covers the notices until now.
  }
}

RuleNeighbourReporter::Look RuleNeighbourReporter::look() {
  auto rules = kernel.rules();
  auto neighbours = kernel.neighbours();
  Look result;
  result.read = rules.size() + neighbours.size();
  result.rules = shownRules(kj::mv(rules));
  result.neighbours = shownNeighbours(kernel.links(), kj::mv(neighbours));
  return result;
}

namespace {

// Returns the number of items of `first` that `second` lacks; both are sorted.
size_t countMissing(const std::vector<ShownNeighbours::One>& first,
                    const std::vector<ShownNeighbours::One>& second) {
  std::vector<ShownNeighbours::One> missing;
  std::set_difference(first.begin(), first.end(), second.begin(), second.end(),
                      std::back_inserter(missing));
  return missing.size();
}

}  // namespace

// Returns false if the report has to be repeated.
kj::Promise<bool> RuleNeighbourReporter::report(Look& look) {
  Report changes;
  bool rulesChanged = true, neighboursChanged = true;
  KJ_IF_MAYBE (published, publishedRules) {
    rulesChanged = *published != look.rules;
    if (rulesChanged) look.changed += look.rules.rules.size();
  }
  KJ_IF_MAYBE (published, publishedNeighbours) {
    neighboursChanged = *published != look.neighbours;
    auto &before = published->neighbours, &now = look.neighbours.neighbours;
    look.changed += kj::max(countMissing(before, now), countMissing(now, before));
  }
  if (rulesChanged) changes.rules = ruleStatuses(look.rules);
  if (neighboursChanged) changes.neighbours = neighbourStatuses(look.neighbours);
  if (changes.rules == nullptr && changes.neighbours == nullptr) co_return true;
  auto failure = co_await errorOf(
      [&] { return timer.timeoutAfter(kPublishDeadline, publish(kj::mv(changes))); });
  KJ_IF_MAYBE (error, failure) {
    log::warn("cannot report rules and neighbours; retrying", {{"error", *error}});
    co_return false;
  }
  logCut(look.rules.more + look.neighbours.more);
  publishedRules = kj::mv(look.rules);
  publishedNeighbours = kj::mv(look.neighbours);
  co_return true;
}

void RuleNeighbourReporter::logCut(size_t more) {
  if (more > 0 && !cut) {
    log::warn("too many rules or neighbours; not all are shown",
              {{"shown", kMostShown}, {"more", more}});
  }
  cut = more > 0;
}

}  // namespace talos::networkd
