#include "apid/gate/unverified-peers.h"

#include <string.h>

#include "common/base/annotation.h"
#include "common/base/error.h"
#include "common/base/version.h"
#include "common/tls/node-certificate.h"

namespace talos::apid {
namespace {

constexpr auto kDialTimeout = 10 * kj::SECONDS;

struct UnverifiedPeer : kj::Refcounted {
  UnverifiedPeer(kj::String address, kj::String verificationError)
      : address(kj::mv(address)), verificationError(kj::mv(verificationError)) {}
  const kj::String address, verificationError;

  kj::Exception refusal(kj::StringPtr method) const {
    auto what = kj::str("the identity of ", address, " is not verified (", verificationError,
                        "), so ", method, " is not sent to it; ");
    // OpenSSL's text for a valid certificate that does not name the address.
    bool otherAddress = strstr(verificationError.cStr(), "IP address mismatch") != nullptr;
    auto hint =
        otherAddress
            ? kj::str(
                  "the certificate of a worker has its host name and the addresses from "
                  "which it reaches trustd; use one of these with -n")
            : kj::str("`talosctl -n ", address, " service apid` shows what it is waiting for");
    return error(ErrorKind::kFailedPrecondition, kj::str(what, hint));
  }
};

// Serves the $joining methods of an interface and refuses the others.
template <typename Interface>
class Joining : public Interface::Server {
 public:
  explicit Joining(kj::Own<UnverifiedPeer> peer) : peer(kj::mv(peer)) {}

  capnp::Capability::Server::DispatchCallResult dispatchCall(
      uint64_t interfaceId, uint16_t methodId,
      capnp::CallContext<capnp::AnyPointer, capnp::AnyPointer> context) override {
    auto schema = capnp::Schema::from<Interface>();
    auto methods = schema.getMethods();
    if (interfaceId == capnp::typeId<Interface>() && methodId < methods.size()) {
      auto method = methods[methodId];
      if (!annotation::has(method, annotation::kJoining)) {
        return {peer->refusal(method.getProto().getName()), false, true};
      }
    }
    return Interface::Server::dispatchCall(interfaceId, methodId, context);
  }

 protected:
  kj::Own<UnverifiedPeer> peer;
};

class JoiningMachine final : public Joining<rpc::Machine> {
 public:
  JoiningMachine(rpc::Machine::Client remote, kj::Own<UnverifiedPeer> peer)
      : Joining(kj::mv(peer)), remote(kj::mv(remote)) {}

 protected:
  kj::Promise<void> version(VersionContext context) override {
    auto answer = co_await remote.versionRequest().send();
    context.setResults(answer);
    auto out = context.getResults();
    out.setTag(kj::str(answer.getTag(), " (", kNotAuthenticated, ")"));
    out.setSha(kj::str(answer.getSha(), " (", kNotAuthenticated, ")"));  // for gRPC clients
  }
  kj::Promise<void> status(StatusContext context) override {
    auto answer = co_await remote.statusRequest().send();
    context.setResults(answer);
    auto out = context.getResults();
    auto problems = answer.getProblems();
    auto list = out.initProblems(problems.size() + 1);
    list.set(0, kj::str(kNotAuthenticated, ": ", peer->verificationError));
    for (auto i : kj::indices(problems)) list.set(i + 1, problems[i]);
  }

 private:
  rpc::Machine::Client remote;
};

class JoiningServices final : public Joining<rpc::Services> {
 public:
  JoiningServices(rpc::Services::Client remote, kj::Own<UnverifiedPeer> peer)
      : Joining(kj::mv(peer)), remote(kj::mv(remote)) {}

 protected:
  kj::Promise<void> list(ListContext context) override {
    auto answer = co_await remote.listRequest().send();
    context.setResults(answer);
    for (auto service : context.getResults().getServices()) {
      if (service.asReader().getId() != "apid"_kj) continue;
      auto health = service.getHealth();
      health.setLastMessage(kj::str("(", kNotAuthenticated, ") ", health.getLastMessage()));
    }
  }

 private:
  rpc::Services::Client remote;
};

class JoiningNode final : public Joining<rpc::Node> {
 public:
  JoiningNode(rpc::Node::Client remote, kj::Own<UnverifiedPeer> peer)
      : Joining(kj::mv(peer)), remote(kj::mv(remote)) {}

 protected:
  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(
        kj::heap<JoiningMachine>(remote.machineRequest().send().getMachine(), kj::addRef(*peer)));
    return kj::READY_NOW;
  }
  kj::Promise<void> services(ServicesContext context) override {
    context.getResults().setServices(kj::heap<JoiningServices>(
        remote.servicesRequest().send().getServices(), kj::addRef(*peer)));
    return kj::READY_NOW;
  }

 private:
  rpc::Node::Client remote;
};

}  // namespace

// More than the limit of all clients together (gate.h).
constexpr uint64_t kInFlight = 128u << 20;
// Limit of messages that arrive from a node, and of bytes that wait to be sent to it.
constexpr size_t kMostOfNode = 32u << 20;

kj::Promise<Remote> dialMachine(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                TlsEndpoint& tls, const Ip& address, uint16_t port,
                                kj::StringPtr expectedName, kj::Maybe<Budget&> budget) {
  ShownCertificate shown;
  kj::String serial;
  auto name = kj::str(expectedName);
  auto text = address.toString();
  Secure secure = [&](kj::Own<kj::AsyncIoStream> stream) {
    return tls.connectTolerant(kj::mv(stream), name).then([&](TlsEndpoint::TolerantConnection&& c) {
      shown = {.verificationError = kj::mv(c.verificationError),
               .controlPlane = isOfControlPlane(c.certificate),
               .names = kj::mv(c.certificate.dnsNames)};
      serial = kj::mv(c.certificate.serial);
      return kj::mv(c.stream);
    });
  };
  auto limits = [&]() {
    bool verified = shown.verificationError == nullptr;
    auto result = verified ? DialLimits() : DialLimits::small();
    // Calls of the node go to sinks of clients, whose accounts are charged (forwarded-calls.h): no
    // client may stop the reading for all others.
    if (verified) result.inFlightWords = kInFlight / sizeof(capnp::word);
    KJ_IF_MAYBE (b, budget) {
      // Includes the reserve: clients that use up all their bytes must not keep an administrator
      // from the answers of other nodes.
      result.account = b->account(kj::str("node ", serial.size() > 0 ? serial : text), kMostOfNode,
                                  Budget::Rank::kPrivileged);
    }
    return result;
  };
  auto connection = co_await connectTcp(lowLevel, timer, text, port, kj::mv(secure), kDialTimeout,
                                        kj::mv(limits));
  co_return Remote(kj::mv(connection), kj::mv(shown), kj::mv(serial));
}

void refuseToForward() {
  fail(ErrorKind::kFailedPrecondition,
       "this node is a worker, which does not forward calls; use a control-plane node as the "
       "endpoint (talosctl -e)");
}

rpc::Node::Client joiningNode(rpc::Node::Client remote, kj::String address,
                              kj::String verificationError) {
  return kj::heap<JoiningNode>(
      kj::mv(remote), kj::refcounted<UnverifiedPeer>(kj::mv(address), kj::mv(verificationError)));
}

}  // namespace talos::apid
