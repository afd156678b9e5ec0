#include "machined/brain/trial-calls.h"

#include "common/text/texts.h"

namespace talos::machined {
namespace {

uint64_t socketOf(const netlink::Connection& connection) {
  auto& cookie = connection.id.idiag_cookie;
  return uint64_t{cookie[1]} << 32 | cookie[0];
}

bool isOfNode(const Ip& address, kj::ArrayPtr<const kj::String> own) {
  return address.isLoopback() || contains(own, address.toString());
}

}  // namespace

void TrialCalls::begin(uint64_t number, bool needsCall, kj::TimePoint now) {
  if (number == trial) return;
  trial = number;
  this->needsCall = needsCall;
  settled = false;
  begun = now;
  older.clear();
}

kj::Vector<netlink::Connection> TrialCalls::look(Connections connections,
                                                 kj::ArrayPtr<const kj::String> own,
                                                 bool isNetworkAsWanted, kj::TimePoint now) {
  kj::Vector<netlink::Connection> ends;
  if (!settles()) return ends;
  older.clear();
  auto passed = now - begun;
  settled = passed >= kLongestSettling || (isNetworkAsWanted && passed >= kCallsCountAfter);
  for (auto& connection : connections) {
    older.add(socketOf(connection));
    if (settled && needsCall && !isOfNode(connection.remote, own)) ends.add(connection);
  }
  return ends;
}

bool TrialCalls::counts(Connections connections, kj::ArrayPtr<const kj::String> own) const {
  if (!settled) return false;
  for (auto& connection : connections) {
    bool isOlder = false;
    for (auto socket : older) isOlder = isOlder || socket == socketOf(connection);
    if (!isOlder && !isOfNode(connection.remote, own)) return true;
  }
  return false;
}

}  // namespace talos::machined
