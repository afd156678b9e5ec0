#include "talosctl/rotate-ca/etcd-rotation.h"

#include "common/base/error.h"
#include "common/text/texts.h"
#include "common/tls/authorities.h"
#include "common/tls/pki.h"
#include "common/tls/public-key.h"
#include "rpc/etcd.capnp.h"
#include "talosctl/rotate-ca/node-checks.h"

namespace talos::talosctl {
namespace {

constexpr kj::StringPtr kEtcdService = "etcd"_kj;
constexpr kj::StringPtr kAuthorities = "/etc/kubernetes/pki/etcd/ca.crt"_kj;
constexpr kj::StringPtr kCertificates[] = {"/etc/kubernetes/pki/etcd/peer.crt"_kj,
                                           "/etc/kubernetes/pki/etcd/server.crt"_kj};

}  // namespace

kj::Maybe<kj::StringPtr> etcdFilesError(const Rotation& rotation, RotationPhase phase,
                                        kj::StringPtr authorities,
                                        kj::ArrayPtr<const kj::String> certificates) {
  kj::Vector<kj::String> hashes;
  for (auto& one : pki::certificatesIn(authorities)) hashes.add(pki::authorityHash(one));
  if (!contains(hashes, pki::authorityHash(rotation.newCa))) {
    return "its etcd does not accept the new CA yet"_kj;
  }
  bool old = contains(hashes, pki::authorityHash(rotation.oldCa));
  if (phase == RotationPhase::kDrop && old) return "its etcd accepts the old CA still"_kj;
  if (phase != RotationPhase::kDrop && !old) return "its etcd does not accept the old CA"_kj;
  if (phase == RotationPhase::kAccept) return nullptr;
  for (auto& one : certificates) {
    if (!pki::isSignedBy(one, rotation.newCa)) {
      return "the certificates of its etcd are not of the new CA yet"_kj;
    }
  }
  return nullptr;
}

kj::Maybe<kj::StringPtr> etcdClientError(const Rotation& rotation, RotationPhase phase,
                                         kj::ArrayPtr<const kj::String> authorities) {
  if (!contains(authorities, pki::authorityHash(rotation.newCa))) {
    return "its API server has not been given the new CA yet"_kj;
  }
  bool old = contains(authorities, pki::authorityHash(rotation.oldCa));
  if (phase == RotationPhase::kDrop && old) return "its API server accepts the old CA still"_kj;
  if (phase != RotationPhase::kDrop && !old) return "its API server does not accept the old CA"_kj;
  return nullptr;
}

kj::Promise<void> EtcdRotation::prepare() {
  requireNames();
  // A rotation that was begun waits for each node later.
  if (rotation.begun) co_return;
  KJ_IF_MAYBE (error, co_await membersError(nodes[0])) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("etcd must be healthy before its CA is rotated: ", *error));
  }
}

kj::Promise<kj::Maybe<kj::String>> EtcdRotation::filesError(const RotatedNode& node,
                                                            RotationPhase phase) {
  auto authorities = co_await readSmallFile(cluster, node, kAuthorities);
  kj::Vector<kj::String> certificates;
  for (auto path : kCertificates) certificates.add(co_await readSmallFile(cluster, node, path));
  KJ_IF_MAYBE (error, etcdFilesError(rotation, phase, authorities, certificates)) {
    co_return kj::str(*error);
  }
  co_return nullptr;
}

// Calls one member: it reports if all members answer.
kj::Promise<kj::Maybe<kj::String>> EtcdRotation::membersError(const RotatedNode& node) {
  auto reached = co_await cluster.reach(node.address);
  auto request = reached.etcdRequest().send().getEtcd().membersRequest();
  auto got = co_await cluster.answer<rpc::Etcd::MembersResults>(request.send());
  if (!got.getQuorum()) co_return kj::str("etcd has no quorum");
  for (auto member : got.getMembers()) {
    if (member.getLearner()) co_return kj::str(member.getName(), " does not vote yet");
    if (member.getProblem().size() == 0) continue;
    co_return kj::str("the member ", member.getName(), " does not answer: ", member.getProblem());
  }
  co_return nullptr;
}

// Reads the file of the CAs, which is written only while etcd is stopped: a running etcd uses this
// file.
kj::Promise<kj::Maybe<kj::String>> EtcdRotation::served(const RotatedNode& node,
                                                        RotationPhase phase) {
  auto error = co_await filesError(node, phase);
  if (error != nullptr) co_return kj::mv(error);
  if (!co_await isHealthy(cluster, node, kEtcdService)) {
    co_return kj::str("its etcd is not healthy yet");
  }
  auto left = co_await membersError(node);
  if (left != nullptr) co_return kj::mv(left);
  auto server = co_await componentSecrets(cluster, node, kApiServer);
  KJ_IF_MAYBE (wrong, etcdClientError(rotation, phase, server.etcdCas)) {
    co_return kj::str(*wrong);
  }
  co_return co_await staticPodError(cluster, node, kApiServer, server.version);
}

kj::Promise<void> EtcdRotation::finish() {
  note("the CA of etcd is rotated");
  return kj::READY_NOW;
}

}  // namespace talos::talosctl
