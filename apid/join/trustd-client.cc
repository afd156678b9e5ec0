#include "apid/join/trustd-client.h"

#include <sys/socket.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/tls/authorities.h"
#include "common/tls/held-message.h"
#include "common/tls/signature.h"
#include "common/tls/tls-custom-verify.h"
#include "common/wire/rpc-server.h"
#include "rpc/trust.capnp.h"

namespace talos::apid {
namespace {

constexpr auto kConnectTimeout = 5 * kj::SECONDS;
constexpr size_t kMostBytes = 64u << 10;  // for an answer's certificates
constexpr size_t kMostServers = 17;       // the called server, and the servers that it names

Ip localAddress(kj::AsyncIoStream& stream) {
  sockaddr_storage name{};
  kj::uint length = sizeof name;
  stream.getsockname(reinterpret_cast<sockaddr*>(&name), &length);
  return KJ_ASSERT_NONNULL(Endpoint::of(name)).address.unmapped();
}

kj::String pemOf(capnp::Data::Reader pem) {
  if (pem.size() > kMostBytes) {
    fail(ErrorKind::kUnauthenticated,
         kj::str("the certificate of trustd has ", pem.size(), " bytes, which is too long"));
  }
  return kj::str(pem.asChars());
}

struct TrustdConnection {
  kj::Own<Connection> connection;
  Ip local;
  rpc::Trust::Client trust() { return connection->bootstrap().castAs<rpc::Trust>(); }
};

// The addresses of trustd and of this node. Everything referenced outlives the calls.
struct TrustdDialer {
  kj::LowLevelAsyncIoProvider& lowLevel;
  kj::Timer& timer;
  const Pin& pin;
  kj::StringPtr token;
  const kj::Maybe<Identity>& held;
  uint16_t port;

  // Shows the certificate, and its key's signature over this message. Shows nothing if the key
  // cannot sign, because the token may suffice.
  void show(rpc::Trust::Held::Builder out, kj::StringPtr message) const {
    KJ_IF_MAYBE (identity, held) {
      kj::runCatchingExceptions([&] {
        auto signature = pki::sign(identity->key, message.asBytes());
        auto all = pki::certificatesIn(identity->certificate);
        if (all.empty()) return;
        out.setCertificate(all[0].asBytes());
        out.setSignature(signature);
      });
    }
  }

  kj::Promise<TrustdConnection> connect(Ip server, kj::Maybe<Ip> source, kj::Duration timeout) {
    kj::Maybe<Ip> local;
    kj::Maybe<kj::String> refusal;  // connectTcp() turns every error into Unavailable
    auto secure = [&](kj::Own<kj::AsyncIoStream> stream) {
      local = localAddress(*stream);
      return connectWithVerifier(kj::mv(stream), [&](kj::ArrayPtr<const kj::String> chain) {
        refusal = pin.verify(chain);
        return refusal.map([](kj::String& error) { return kj::str(error); });
      });
    };
    kj::Maybe<kj::Own<Connection>> connection;
    kj::Maybe<kj::Exception> failure;
    co_await connectTcpFrom(source, lowLevel, timer, server.toString(), port, kj::mv(secure),
                            timeout, &DialLimits::small)
        .then([&](kj::Own<Connection>&& up) { connection = kj::mv(up); },
              [&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (error, refusal) {
      fail(ErrorKind::kUnauthenticated,
           kj::str("the identity of trustd is not verified: ", *error));
    }
    KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
    co_return TrustdConnection{kj::mv(KJ_ASSERT_NONNULL(connection)), KJ_ASSERT_NONNULL(local)};
  }
};

struct ProvenAddress {
  Ip address;
  kj::Array<kj::byte> proof;
};

size_t commonBits(const Ip& a, const Ip& b) {
  unsigned length = 0;
  while (length < a.bits() && a.masked(length + 1) == b.masked(length + 1)) ++length;
  return length;
}

// Returns trustd's addresses of the same family, the nearest first.
kj::Vector<Ip> serversFor(const Ip& address, kj::ArrayPtr<const Ip> servers) {
  constexpr size_t kMostTried = 2;
  kj::Vector<Ip> result;
  for (auto& server : servers) {
    if (server.family() == address.family()) result.add(server);
  }
  std::stable_sort(result.begin(), result.end(), [&](auto& a, auto& b) {
    return commonBits(a, address) > commonBits(b, address);
  });
  if (result.size() > kMostTried) result.truncate(kMostTried);
  return result;
}

// Returns nullptr if trustd is unreachable from this address, or sees another address.
kj::Promise<kj::Maybe<ProvenAddress>> prove(TrustdDialer& dialer, Ip address,
                                            kj::Vector<Ip> servers) {
  kj::Maybe<ProvenAddress> proven;
  auto timeout = kProofTimeout / int64_t(kj::max(servers.size(), size_t(1)));
  for (auto& server : servers) {
    auto attempt = [&]() -> kj::Promise<void> {
      auto connection = co_await dialer.connect(server, address, timeout);
      auto call = connection.trust().proveRequest();
      call.setToken(dialer.token);
      dialer.show(call.initHeld(), messageToProve());
      auto answer = co_await call.send();
      if (Ip::parse(answer.getAddress()).map([](Ip ip) { return ip.unmapped(); }) == address) {
        proven = ProvenAddress{address, kj::heapArray<kj::byte>(answer.getProof())};
      }
    };
    // An address whose call fails is left out.
    co_await dialer.timer.timeoutAfter(timeout, kj::evalNow(attempt)).catch_([](kj::Exception&&) {
    });
    if (proven != nullptr) break;
  }
  co_return kj::mv(proven);
}

// Returns trustd's addresses; nullptr if it is an earlier version without proofs.
kj::Promise<kj::Maybe<kj::Vector<Ip>>> serversOf(TrustdDialer& dialer, Ip server) {
  auto connection = co_await dialer.connect(server, nullptr, kConnectTimeout);
  auto call = connection.trust().proveRequest();
  call.setToken(dialer.token);
  dialer.show(call.initHeld(), messageToProve());
  kj::Maybe<kj::Vector<Ip>> servers;
  kj::Maybe<kj::Exception> failure;
  co_await call.send().then(
      [&](auto&& answer) {
        auto& list = servers.emplace();
        list.add(server);
        for (kj::StringPtr text : answer.getServers()) {
          KJ_IF_MAYBE (address, Ip::parse(text)) {
            bool known = std::find(list.begin(), list.end(), address->unmapped()) != list.end();
            if (!known && list.size() < kMostServers) list.add(address->unmapped());
          }
        }
      },
      [&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    if (kindOf(*e) != ErrorKind::kUnimplemented) kj::throwFatalException(kj::mv(*e));
  }
  co_return kj::mv(servers);
}

kj::Promise<kj::Vector<ProvenAddress>> proveAll(TrustdDialer& dialer, TrustdRequest& request) {
  kj::Vector<ProvenAddress> proven;
  auto servers = co_await serversOf(dialer, request.server);
  KJ_IF_MAYBE (known, servers) {
    kj::Vector<kj::Promise<kj::Maybe<ProvenAddress>>> calls;
    for (auto& address : request.addresses) {
      if (calls.size() == kMostProven) break;
      calls.add(prove(dialer, address, serversFor(address, *known)));
    }
    for (auto& one : co_await kj::joinPromises(calls.releaseAsArray())) {
      KJ_IF_MAYBE (there, one) proven.add(kj::mv(*there));
    }
  }
  co_return kj::mv(proven);
}

kj::Promise<TrustdAnswer> requestSigned(TrustdDialer& dialer, TrustdRequest& request,
                                        kj::ArrayPtr<const ProvenAddress> proven) {
  auto connection = co_await dialer.connect(request.server, nullptr, kConnectTimeout);
  auto addresses = KJ_MAP(one, proven) {
    return one.address;
  };
  auto call = connection.trust().certificateRequest();
  auto text = request.certificateRequest(connection.local, addresses);
  call.setRequest(text.asBytes());
  call.setToken(request.token);
  dialer.show(call.initHeld(), messageToRenew(text));
  auto proofs = call.initProofs(proven.size());
  for (auto i : kj::indices(proven)) proofs.set(i, proven[i].proof);
  auto answer = co_await call.send();
  co_return TrustdAnswer{pemOf(answer.getCa()), pemOf(answer.getCertificate())};
}

}  // namespace

kj::Promise<TrustdAnswer> callTrustd(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                     TrustdRequest request, uint16_t port) {
  TrustdDialer dialer{lowLevel, timer, request.pin, request.token, request.held, port};
  kj::Vector<ProvenAddress> proven;
  // A node with one address calls from this address.
  if (request.addresses.size() > 1) proven = co_await proveAll(dialer, request);
  if (proven.size() > 0) {
    kj::Maybe<TrustdAnswer> answer;
    kj::Maybe<kj::Exception> failure;
    co_await requestSigned(dialer, request, proven)
        .then([&](TrustdAnswer&& made) { answer = kj::mv(made); },
              [&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (there, answer) co_return kj::mv(*there);
    KJ_IF_MAYBE (e, failure) {
      if (kindOf(*e) != ErrorKind::kPermissionDenied) kj::throwFatalException(kj::mv(*e));
    }
  }
  co_return co_await requestSigned(dialer, request, nullptr);
}

}  // namespace talos::apid
