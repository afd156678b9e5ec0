// ModelKernel's routing rules.
#include <errno.h>

#include <algorithm>
#include <tuple>

#include "common/netlink/netlink-model-lists.h"
#include "common/netlink/netlink-model.h"

namespace talos::netlink {

namespace {

// As the kernel compares a rule with a request (fib4_rule_compare()): what is not given fits.
bool fitsGiven(const Rule& there, const Rule& given) {
  return (!given.from || there.from == given.from) && (!given.to || there.to == given.to) &&
         (given.tos == 0 || there.tos == given.tos);
}

// Whether the kernel takes a new one for the one that is there (rule_exists()).
bool taken(const Rule& there, const Rule& fresh) {
  return there.family == fresh.family && there.priority == fresh.priority &&
         there.action == fresh.action && there.table == fresh.table && there.iif == fresh.iif &&
         there.oif == fresh.oif && there.mark == fresh.mark && there.mask == fresh.mask &&
         there.suppressGroup == fresh.suppressGroup &&
         there.suppressPrefixLength == fresh.suppressPrefixLength && there.l3mdev == fresh.l3mdev &&
         there.users == fresh.users && there.ipProtocol == fresh.ipProtocol &&
         there.protocol == fresh.protocol && there.sourcePorts == fresh.sourcePorts &&
         there.destinationPorts == fresh.destinationPorts && fitsGiven(there, fresh);
}

template <typename T>
bool absentOr(const T& given, const T& there) {
  return given == T{} || given == there;
}

// Whether a deletion means this one (rule_find()).
bool meant(const Rule& there, const Rule& given) {
  return there.family == given.family && there.priority == given.priority &&
         absentOr(given.action, there.action) && absentOr(given.table, there.table) &&
         absentOr(given.iif, there.iif) && absentOr(given.oif, there.oif) &&
         absentOr(given.mark, there.mark) && absentOr(given.mask, there.mask) &&
         absentOr(given.suppressGroup, there.suppressGroup) &&
         absentOr(given.suppressPrefixLength, there.suppressPrefixLength) &&
         absentOr(given.l3mdev, there.l3mdev) && absentOr(given.users, there.users) &&
         absentOr(given.ipProtocol, there.ipProtocol) && absentOr(given.protocol, there.protocol) &&
         absentOr(given.sourcePorts, there.sourcePorts) &&
         absentOr(given.destinationPorts, there.destinationPorts) && fitsGiven(there, given);
}

int refuses(const Rule& rule, bool deleting, kj::String& message) {
  KJ_IF_MAYBE (mistake, mistakeOf(rule, deleting)) {
    message = kj::str("rule: ", *mistake);
    return EINVAL;
  }
  if (rule.action == FR_ACT_GOTO && rule.target <= rule.priority) {
    message = kj::str("Backward goto not supported");
    return EINVAL;
  }
  return 0;
}

}  // namespace

kj::Vector<Rule> ModelKernel::rules() {
  kj::Vector<Rule> result;
  result.addAll(ruleList);
  return result;
}

void ModelKernel::makeFirstRules() {
  constexpr uint32_t kMain = 32766, kDefault = 32767;
  auto add = [&](int family, uint32_t priority, uint32_t table) {
    ruleList.add(
        Rule{.family = family, .priority = priority, .table = table, .protocol = RTPROT_KERNEL});
  };
  add(AF_INET, 0, RT_TABLE_LOCAL);
  add(AF_INET, kMain, RT_TABLE_MAIN);
  add(AF_INET, kDefault, RT_TABLE_DEFAULT);
  if (!ipv6) return;
  add(AF_INET6, 0, RT_TABLE_LOCAL);
  add(AF_INET6, kMain, RT_TABLE_MAIN);
}

int ModelKernel::add(const Rule& wanted, kj::String& message) {
  if (int code = refuses(wanted, false, message)) return code;
  if (wanted.family == AF_INET6 && !ipv6) return EAFNOSUPPORT;
  auto rule = normalized(wanted);
  for (auto& there : ruleList) {
    if (taken(there, rule)) return EEXIST;
  }
  ruleList.add(kj::mv(rule));
  std::stable_sort(ruleList.begin(), ruleList.end(), [](auto& a, auto& b) {
    return std::tie(a.family, a.priority) < std::tie(b.family, b.priority);
  });
  notify({.rules = true});
  return 0;
}

int ModelKernel::remove(const Rule& wanted, kj::String& message) {
  if (int code = refuses(wanted, true, message)) return code;
  if (wanted.family == AF_INET6 && !ipv6) return EAFNOSUPPORT;
  auto given = normalized(wanted);
  bool found = false;
  removeIf(ruleList, [&](auto& there) {
    bool first = !found && meant(there, given);
    found = found || first;
    return first;
  });
  if (!found) return ENOENT;
  notify({.rules = true});
  return 0;
}

}  // namespace talos::netlink
