#include "apid/gate/call-counts.h"

#include "common/base/log.h"

namespace talos::apid {
namespace {

constexpr kj::StringPtr kDenied = "PermissionDenied"_kj;
constexpr size_t kMostMethods = 512;  // both protocols have some 250

}  // namespace

class CallCounts::Observer final : public CallObserver {
 public:
  Observer(CallCounts& counts, kj::StringPtr role, kj::StringPtr peer)
      : counts(counts), role(role), peer(kj::str(peer)) {}

  void ended(uint64_t interfaceId, uint16_t methodId, kj::StringPtr result,
             kj::Duration duration) override {
    auto name = counts.nameOf(interfaceId, methodId);
    if (name.size() > 0) count(name, result, duration);
  }
  kj::String describe(uint64_t interfaceId, uint16_t methodId) override {
    return kj::str("call ", counts.nameOf(interfaceId, methodId), " of ", peer, ", ", role);
  }
  void ended(kj::StringPtr path, kj::StringPtr result, kj::Duration duration) override {
    count(path, result, duration);
  }

 private:
  CallCounts& counts;
  kj::StringPtr role;  // static
  kj::String peer;

  void count(kj::StringPtr method, kj::StringPtr result, kj::Duration duration) {
    auto& counted = counts.methodOf(method);
    counted.add(role, result, duration);
    // A call that the gate refused has a line that says more, and those are bounded for each peer.
    kj::Maybe<uint64_t> hidden;
    if (result != kDenied) hidden = counted.lines.next(counts.clock.now());
    auto level = hidden == nullptr ? log::Level::kDebug : log::Level::kInfo;
    if (!log::writes(level)) return;
    log::write(level, "call ended",
               {{"method", method},
                {"peer", peer},
                {"role", role},
                {"result", result},
                {"microseconds", duration / kj::MICROSECONDS},
                {"callsNotShown", hidden.orDefault(0)}});
  }
};

kj::StringPtr CallCounts::roleOf(const Peer& peer) {
  if (peer.anonymous) return "anonymous"_kj;
  for (auto role : clientRoles()) {
    for (auto& held : peer.organizations) {
      if (held == role) return role;
    }
  }
  for (auto& held : peer.organizations) {
    if (held == kRoleImpersonator) return kRoleImpersonator;
  }
  return "none"_kj;
}

kj::Own<CallObserver> CallCounts::observer(const Peer& peer) {
  return kj::heap<Observer>(*this, roleOf(peer), peer.address);
}

// Returns the method's name; the schema of a newer client has methods whose names this apid does
// not know.
kj::StringPtr CallCounts::nameOf(uint64_t interfaceId, uint16_t methodId) {
  auto key = interfaceId ^ methodId;  // interface ids are random
  KJ_IF_MAYBE (name, names.find(key)) return *name;
  auto rule = rules.find(interfaceId, methodId);
  if (rule.params == nullptr || names.size() >= kMostMethods) return kUnknown;
  return names.insert(key, rule.returnsCapability ? kj::str() : kj::mv(rule.method)).value;
}

CallCounts::Method& CallCounts::methodOf(kj::StringPtr name) {
  auto found = all.find(name.cStr());
  if (found == all.end()) {
    if (all.size() >= kMostMethods) name = kUnknown;
    found = all.try_emplace(name.cStr()).first;
  }
  return found->second;
}

void CallCounts::Method::add(kj::StringPtr role, kj::StringPtr result, kj::Duration duration) {
  constexpr double kNanosecondsOfCall = 1e9;
  auto seconds = static_cast<double>(duration / kj::NANOSECONDS) / kNanosecondsOfCall;
  size_t i = 0;
  while (i < kj::size(kBounds) && seconds > kBounds[i]) ++i;
  ++counts[i];
  this->seconds += seconds;
  ++results[{role, result}];
}

}  // namespace talos::apid
