#include "etcd-supervisor/control/node-peers.h"

#include "common/base/fill-list.h"
#include "common/base/node-layout.h"
#include "common/base/within.h"
#include "common/net/dns-resolver.h"
#include "common/wire/rpc-server.h"
#include "rpc/node.capnp.h"

namespace talos::supervisor {
namespace {

constexpr auto kConnect = 3 * kj::SECONDS, kAnswer = 5 * kj::SECONDS;

struct Line {
  kj::Own<Connection> connection;
  rpc::Etcd::Client etcd;
};

kj::Promise<Line> dial(kj::AsyncIoContext& io, TlsEndpoint& api, kj::String address) {
  auto secure = [&api, name = kj::str(address)](kj::Own<kj::AsyncIoStream> stream) {
    return api.connect(kj::mv(stream), name);
  };
  auto connection = co_await connectTcp(*io.lowLevelProvider, io.provider->getTimer(), address,
                                        kApidPort, kj::mv(secure), kConnect, &DialLimits::small);
  auto cluster = connection->bootstrap().castAs<rpc::Cluster>();
  auto etcd = cluster.nodeRequest().send().getNode().etcdRequest().send().getEtcd();
  co_return Line{kj::mv(connection), kj::mv(etcd)};
}

kj::Promise<BootstrapState> askBootstrapState(kj::AsyncIoContext& io, TlsEndpoint& api,
                                              kj::String address, kj::String asker) {
  auto line = co_await dial(io, api, kj::mv(address));
  auto request = line.etcd.bootstrapStateRequest();
  request.setAsker(asker);
  auto answer = co_await request.send();
  auto said = answer.getState();
  // An unknown state of a newer version is not consent.
  auto state = BootstrapState::State::kMember;
  using State = rpc::Etcd::BootstrapState::State;
  switch (said.getState()) {
    case State::NONE:
      state = BootstrapState::State::kNone;
      break;
    case State::CLAIMING:
      state = BootstrapState::State::kClaims;
      break;
    case State::BOOTSTRAPPING:
      state = BootstrapState::State::kMakes;
      break;
    case State::MEMBER:
      break;
  }
  co_return BootstrapState{.name = kj::str(said.getName()),
                           .state = state,
                           .cluster = said.getClusterId(),
                           .since = said.getSince()};
}

kj::Promise<kj::Array<etcd::Member>> requestMembers(kj::AsyncIoContext& io, TlsEndpoint& api,
                                                    kj::String address) {
  auto line = co_await dial(io, api, kj::mv(address));
  // A node whose etcd does not run would request the members from other nodes, which may request
  // them from this node.
  co_await line.etcd.statusRequest().send();
  auto answer = co_await line.etcd.membersRequest().send();
  co_return KJ_MAP(member, answer.getMembers()) {
    return etcd::Member{.id = member.getId(),
                        .name = kj::str(member.getName()),
                        .peerUrls = textsOf(member.getPeerUrls()),
                        .clientUrls = textsOf(member.getClientUrls()),
                        .learner = member.getLearner()};
  };
}

}  // namespace

kj::Promise<kj::Array<kj::String>> NodePeers::resolve(kj::StringPtr host) {
  return within(io.provider->getTimer(), kAnswer,
                talos::resolve(io.unixEventPort, io.provider->getTimer(), host),
                kj::str("no answer of the name servers within 5 s"));
}

kj::Promise<BootstrapState> NodePeers::bootstrapState(kj::StringPtr address, kj::StringPtr asker) {
  return within(io.provider->getTimer(), kAnswer,
                askBootstrapState(io, api, kj::str(address), kj::str(asker)),
                kj::str("no answer within 5 s"));
}

kj::Promise<kj::Array<etcd::Member>> NodePeers::members(kj::StringPtr address) {
  return within(io.provider->getTimer(), kAnswer, requestMembers(io, api, kj::str(address)),
                kj::str("no answer within 5 s"));
}

etcd::Etcd& EtcdClients::at(kj::StringPtr address) {
  KJ_IF_MAYBE (client, clients.find(address)) return **client;
  auto client = kj::heap<etcd::EtcdClient>(*io.lowLevelProvider, io.provider->getTimer(),
                                           credentials, Endpoint{Ip::require(address), kEtcdPort});
  auto& result = *client;
  clients.insert(kj::str(address), kj::mv(client));
  return result;
}

}  // namespace talos::supervisor
