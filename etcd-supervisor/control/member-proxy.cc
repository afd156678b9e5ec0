#include "etcd-supervisor/control/member-proxy.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/within.h"
#include "common/net/connection-forwarder.h"
#include "common/net/host-dial.h"
#include "common/text/texts.h"
#include "common/tls/pki.h"
#include "common/tls/tls-custom-verify.h"
#include "common/wire/rpc-server.h"
#include "etcd-supervisor/plan/connect-request.h"

namespace talos::supervisor {
namespace {

constexpr auto kReach = 1500 * kj::MILLISECONDS, kShowCertificate = 3 * kj::SECONDS,
               kHead = 5 * kj::SECONDS, kDialMember = 3 * kj::SECONDS;
constexpr size_t kProbesAtOnce = 64;
// Two streams and some requests for each member, in each direction; anything else is a mistake.
constexpr unsigned kMostConnections = 128;

// Reads the head of a request, and nothing after it.
kj::Promise<Endpoint> readTarget(kj::AsyncIoStream& client) {
  kj::Vector<char> head;
  while (headSize(head) == nullptr) {
    if (head.size() >= kLongestHead) {
      fail(ErrorKind::kInvalidArgument, kj::str("a request longer than ", kLongestHead, " bytes"));
    }
    // A client waits for the answer before it sends more, so one byte at a time leaves nothing
    // unread; these requests are few.
    char next;
    co_await client.read(&next, 1);
    head.add(next);
  }
  co_return connectTarget(head);
}

}  // namespace

kj::Promise<kj::Maybe<FoundMember>> MemberProxy::identify(kj::String address,
                                                          kj::StringPtr trusted) {
  auto& timer = io.provider->getTimer();
  kj::Maybe<FoundMember> found;
  auto attempt = [&]() -> kj::Promise<void> {
    auto stream = co_await dialHost({*io.lowLevelProvider, io.unixEventPort, timer},
                                    kj::str(address), peerPort, kReach);
    kj::String leaf;
    co_await within(
        timer, kShowCertificate,
        connectWithVerifier(kj::mv(stream),
                            [&](kj::ArrayPtr<const kj::String> chain) -> kj::Maybe<kj::String> {
                              if (chain.size() == 0) return kj::str("no certificate");
                              leaf = kj::str(chain[0]);
                              return pki::serverCertificateError(
                                  leaf, trusted, kj::systemPreciseCalendarClock().now());
                            })
            .ignoreResult(),
        kj::str("no certificate within 3 s"));
    auto info = pki::inspect(leaf);
    FoundMember member;
    member.address = kj::str(address);
    if (info.commonName.size() > 0) member.names.add(kj::mv(info.commonName));
    for (auto& name : info.dnsNames) addOnce(member.names, kj::mv(name));
    member.addresses = kj::mv(info.addresses);
    found = kj::mv(member);
  };
  co_await attempt().catch_([](kj::Exception&&) {});  // most addresses have no member
  co_return kj::mv(found);
}

kj::Promise<kj::Array<FoundMember>> MemberProxy::find(kj::Vector<kj::String> places) {
  kj::Vector<FoundMember> all;
  auto trusted = authorities();
  if (trusted.size() == 0) co_return all.releaseAsArray();
  for (size_t begin = 0; begin < places.size(); begin += kProbesAtOnce) {
    kj::Vector<kj::Promise<kj::Maybe<FoundMember>>> some;
    for (auto i : kj::range(begin, kj::min(begin + kProbesAtOnce, places.size()))) {
      some.add(identify(kj::mv(places[i]), trusted));
    }
    for (auto& found : co_await kj::joinPromises(some.releaseAsArray())) {
      KJ_IF_MAYBE (member, found) all.add(kj::mv(*member));
    }
  }
  co_return all.releaseAsArray();
}

void MemberProxy::lead(kj::Vector<MemberRoute> routes) {
  std::map<std::string, Way> next;
  for (auto& route : routes) {
    next[route.host.cStr()].addresses = kj::mv(route.addresses);
  }
  ways = std::move(next);
  if (serving != nullptr) return;
  serving = forwardConnections(*io.lowLevelProvider, listenTcp("127.0.0.1", port),
                               kj::str("127.0.0.1:", port), KJ_BIND_METHOD(*this, serve),
                               kMostConnections)
                .eagerlyEvaluate([](kj::Exception&& e) {
                  log::error("the proxy of etcd has ended", {{"error", messageOf(e)}});
                });
}

kj::Promise<kj::Own<kj::AsyncIoStream>> MemberProxy::serve(kj::AsyncIoStream& client) {
  auto& timer = io.provider->getTimer();
  auto target = co_await within(timer, kHead, readTarget(client), kj::str("no request within 5 s"));
  if (target.port != peerPort) {
    fail(ErrorKind::kPermissionDenied, kj::str("this proxy leads to port ", peerPort, " alone"));
  }
  auto host = target.address.unmapped().toString();
  auto way = ways.find(host.cStr());
  if (way != ways.end()) {
    auto& [addresses, next] = way->second;
    host = kj::str(addresses[next++ % addresses.size()]);
  }
  auto stream = co_await dialHost({*io.lowLevelProvider, io.unixEventPort, timer}, kj::mv(host),
                                  peerPort, kDialMember);
  constexpr kj::StringPtr kConnected = "HTTP/1.1 200 Connection established\r\n\r\n"_kj;
  co_await client.write(kConnected.begin(), kConnected.size());
  co_return kj::mv(stream);
}

}  // namespace talos::supervisor
