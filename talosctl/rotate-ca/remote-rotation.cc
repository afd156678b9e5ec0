#include "talosctl/rotate-ca/remote-rotation.h"

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/memory/zeroize.h"
#include "common/tls/authorities.h"
#include "common/tls/public-key.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "talosctl/rotate-ca/node-roles.h"

namespace talos::talosctl {
namespace {

constexpr auto kConnect = 10 * kj::SECONDS, kAnswer = 15 * kj::SECONDS;

// Returns true if a retry may succeed: connections end when nodes restart, and a config may be
// changed meanwhile.
bool mayPassLater(const kj::Exception& e) {
  auto kind = kindOf(e);
  return kind == ErrorKind::kUnavailable || kind == ErrorKind::kDeadlineExceeded ||
         kind == ErrorKind::kConflict || kind == ErrorKind::kUnauthenticated ||
         kind == ErrorKind::kNotFound;
}

RotatedNode emptyNode(kj::StringPtr address, config::Config::Reader config) {
  RotatedNode node;
  node.address = kj::str(address);
  node.controlPlane = config::isControlPlane(config.getMachine().getType());
  node.persists = config.getPersist();
  node.machine = machineAuthorityOf(config);
  return node;
}

void readSecretsKeys(RotatedNode& node, config::Cluster::Reader cluster) {
  node.secretbox = pki::Pem(kj::str(cluster.getSecretboxEncryptionSecret()));
  node.aescbc = pki::Pem(kj::str(cluster.getAescbcEncryptionSecret()));
  for (auto one : cluster.getAcceptedEncryptionSecrets()) {
    node.acceptedKeys.add(pki::Pem(kj::str(one)));
  }
}

void readServiceAccountKeys(RotatedNode& node, config::Cluster::Reader cluster) {
  node.key = pki::Pem(pemOf(cluster.getServiceAccount().getKey()));
  if (kj::StringPtr(node.key).size() > 0) node.ca = pki::publicKeyOf(node.key);
  for (auto one : cluster.getAcceptedServiceAccountKeys()) {
    for (auto& key : pki::publicKeysIn(pemOf(one.getKey()))) node.accepted.add(kj::mv(key));
  }
}

void readAuthorities(RotatedNode& node, config::CertificateAndKey::Reader ca,
                     capnp::List<config::AcceptedCa>::Reader accepted) {
  node.ca = pemOf(ca.getCrt());
  node.key = pki::Pem(pemOf(ca.getKey()));
  node.accepted = acceptedCertificates(accepted);
}

RotatedNode nodeOf(kj::StringPtr address, config::Config::Reader config, RotatedCa which) {
  auto node = emptyNode(address, config);
  auto machine = config.getMachine();
  auto cluster = config.getCluster();
  switch (which) {
    case RotatedCa::kMachine:
      readAuthorities(node, machine.getCa(), machine.getAcceptedCAs());
      node.caHash = kj::str(machine.getCaHash());
      node.token = pki::Pem(kj::str(machine.getToken()));
      break;
    case RotatedCa::kKubernetes:
      readAuthorities(node, cluster.getCa(), cluster.getAcceptedCAs());
      break;
    case RotatedCa::kAggregator:
      readAuthorities(node, cluster.getAggregatorCA(), cluster.getAcceptedAggregatorCAs());
      break;
    case RotatedCa::kEtcd:
      readAuthorities(node, cluster.getEtcd().getCa(), cluster.getEtcd().getAcceptedCAs());
      break;
    case RotatedCa::kSecretsKey:
      readSecretsKeys(node, cluster);
      break;
    case RotatedCa::kServiceAccountKey:
      readServiceAccountKeys(node, cluster);
      break;
  }
  return node;
}

}  // namespace

kj::String pemOf(capnp::Data::Reader data) {
  return kj::heapString(data.asChars());
}

Credentials copyOf(const Credentials& credentials) {
  return {kj::str(credentials.authorities), kj::str(credentials.certificate),
          credentials.key.clone()};
}

RemoteRotation::Read::~Read() {
  if (running.document.size() > 0) zeroize(running.document);
}

RemoteRotation::RemoteRotation(Dependencies& deps, Target target, kj::Duration limit)
    : deps(deps),
      target(kj::mv(target)),
      connectLimit(kj::min(kConnect, limit)),
      answerLimit(kj::min(kAnswer, limit)),
      proof(this->target.credentials.authorities) {}

void RemoteRotation::use(Credentials fresh) {
  proof = ControlPlaneProof(fresh.authorities);
  target.credentials = kj::mv(fresh);
  client = nullptr;
}

kj::Promise<void> RemoteRotation::connect() {
  if (client == nullptr) {
    Target copy{.endpoints = {},
                .nodes = {},
                .credentials = copyOf(target.credentials),
                .fingerprints = {}};
    for (auto& endpoint : target.endpoints) copy.endpoints.add(kj::str(endpoint));
    client = kj::heap<Client>(deps, kj::mv(copy));
  }
  return KJ_ASSERT_NONNULL(client)->connect(connectLimit);
}

kj::Promise<rpc::Node::Client> RemoteRotation::reach(kj::StringPtr node) {
  co_await connect();
  co_return KJ_ASSERT_NONNULL(client)->node(node);
}

kj::Promise<rpc::Kubernetes::Client> RemoteRotation::kubernetes(const RotatedNode& node) {
  co_return (co_await reach(node.address)).kubernetesRequest().send().getKubernetes();
}

kj::Promise<rpc::Etcd::Client> RemoteRotation::etcd(const RotatedNode& node) {
  co_return (co_await reach(node.address)).etcdRequest().send().getEtcd();
}

kj::Promise<kj::Vector<ClusterMember>> RemoteRotation::members(kj::StringPtr node) {
  auto listed = co_await answer(listResources<rpc::MemberSpec>(co_await reach(node)));
  kj::Vector<ClusterMember> members;
  for (auto one : listed.getResources()) {
    auto& member = members.add();
    member.name = kj::str(one.getMetadata().getId());
    auto spec = one.getSpec().getAs<rpc::MemberSpec>();
    member.controlPlane = spec.getMachineType() == "controlplane";
    for (auto address : spec.getAddresses()) member.addresses.add(kj::str(address));
  }
  co_return kj::mv(members);
}

kj::Promise<RemoteRotation::Read> RemoteRotation::readConfig(rpc::Node::Client reached,
                                                             kj::StringPtr node, RotatedCa which) {
  Read read;
  read.running = co_await within(deps.timer, answerLimit, runningConfig(kj::mv(reached)));
  auto parsed = config::parse(read.running.document, node);
  if (!parsed.good()) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str(node, ": its config has errors: ", render(parsed.problems())));
  }
  read.node = nodeOf(node, parsed.get(), which);
  co_return kj::mv(read);
}

kj::Promise<RotatedNode> RemoteRotation::read(kj::StringPtr node, RotatedCa which) {
  auto reached = co_await reach(node);
  auto read = co_await readConfig(kj::mv(reached), node, which);
  co_return kj::mv(read.node);
}

kj::Promise<RemoteRotation::Read> RemoteRotation::readSame(rpc::Node::Client reached,
                                                           const RotatedNode& known,
                                                           const Rotation& rotation,
                                                           RotationPhase phase) {
  auto read = co_await readConfig(kj::mv(reached), known.address, rotation.which);
  requireSameNode(known, read.node, rotation, phase, proof);
  co_return kj::mv(read);
}

kj::Promise<Missing> RemoteRotation::attempt(kj::Promise<Missing> work) {
  return work.catch_([this](kj::Exception&& e) -> Missing {
    if (!mayPassLater(e)) kj::throwFatalException(kj::mv(e));
    client = nullptr;
    return messageOf(e);
  });
}

kj::Promise<Missing> RemoteRotation::advance(RotatedNode& node, const Rotation& rotation,
                                             RotationPhase phase, Served& served) {
  auto work = [this, &node, &rotation, phase, &served]() -> kj::Promise<Missing> {
    auto reached = co_await reach(node.address);
    auto read = co_await readSame(reached, node, rotation, phase);
    KJ_IF_MAYBE (patch, rotationPatch(read.node, rotation, phase)) {
      KJ_DEFER(zeroize(*patch));
      kj::Vector<Patch> patches;
      patches.add(Patch{kj::str("the rotation"), kj::str(*patch)});
      KJ_DEFER(zeroize(patches[0].text));
      auto call = patchCall(reached, read.running, "the node's config", patches, false);
      using Applied = capnp::Response<rpc::Configuration::ApplyResults>;
      co_await within(deps.timer, answerLimit, kj::Promise<Applied>(call.send()));
    } else {
      remember(node, kj::mv(read.node));
    }
    co_return co_await served();
  };
  co_return co_await attempt(work());
}

kj::Promise<Missing> RemoteRotation::look(RotatedNode& node, const Rotation& rotation,
                                          RotationPhase phase, Served& served) {
  auto work = [this, &node, &rotation, phase, &served]() -> kj::Promise<Missing> {
    auto reached = co_await reach(node.address);
    auto read = co_await readSame(kj::mv(reached), node, rotation, phase);
    if (rotationPatch(read.node, rotation, phase) != nullptr) {
      co_return kj::str("its config is not that of the phase");
    }
    remember(node, kj::mv(read.node));
    co_return co_await served();
  };
  co_return co_await attempt(work());
}

kj::Promise<Missing> RemoteRotation::tryClient(kj::StringPtr endpoint,
                                               const Credentials& credentials) {
  Target one{.endpoints = {}, .nodes = {}, .credentials = copyOf(credentials), .fingerprints = {}};
  one.endpoints.add(kj::str(endpoint));
  Client tried(deps, kj::mv(one));
  auto failure = co_await failureOf([&]() -> kj::Promise<void> {
    co_await tried.connect(connectLimit);
    auto request = tried.node("").machineRequest().send().getMachine().versionRequest();
    using Version = capnp::Response<rpc::Version>;
    co_await within(deps.timer, answerLimit, kj::Promise<Version>(request.send()));
  });
  co_return failure.map([](kj::Exception& e) { return messageOf(e); });
}

}  // namespace talos::talosctl
