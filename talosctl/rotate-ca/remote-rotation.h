// The nodes of a cluster whose CA is rotated, over the API: their configs, and what is in effect.
//
// Holds one connection, which is made anew when it has ended. No call waits longer than some
// seconds. Holds keys: they are zeroed with it. A key is sent to a node over the connection on
// which the node has just shown, with the answer that it gave before, that it may have it.
#pragma once

#include <kj/function.h>

#include "talosctl/client/cluster-client.h"
#include "talosctl/rotate-ca/rotation-plan.h"

namespace talos::talosctl {

struct ClusterMember {
  kj::String name;
  bool controlPlane = false;
  kj::Vector<kj::String> addresses;
};

class RemoteRotation {
 public:
  // `limit`: of each connection and each answer, beside its own.
  RemoteRotation(Dependencies& deps, Target target, kj::Duration limit);
  KJ_DISALLOW_COPY_AND_MOVE(RemoteRotation);

  // From the next connection on. The CA of these credentials is then the only one whose key is
  // evidence of a control-plane node.
  void use(Credentials fresh);
  ControlPlaneProof& controlPlaneProof() { return proof; }
  kj::ArrayPtr<const kj::String> endpoints() const { return target.endpoints; }
  kj::Promise<void> connect();

  // Of Kubernetes, as this node knows them; none without Kubernetes.
  kj::Promise<kj::Vector<ClusterMember>> members(kj::StringPtr node);
  kj::Promise<RotatedNode> read(kj::StringPtr node, RotatedCa which);

  // The reason why what the config has is not in effect, or none.
  using Served = kj::Function<kj::Promise<kj::Maybe<kj::String>>()>;
  // One attempt to bring the node to the end of the phase: the error that is left, or none.
  // FailedPrecondition when the node has changed its answer (node-roles.h): nothing is sent to it.
  // When its config is that of the phase, `node` has what the config has.
  kj::Promise<kj::Maybe<kj::String>> advance(RotatedNode& node, const Rotation& rotation,
                                             RotationPhase phase, Served& served);
  // The same without a change.
  kj::Promise<kj::Maybe<kj::String>> look(RotatedNode& node, const Rotation& rotation,
                                          RotationPhase phase, Served& served);
  // The error of a client with these credentials at this endpoint.
  kj::Promise<kj::Maybe<kj::String>> tryClient(kj::StringPtr endpoint,
                                               const Credentials& credentials);

  // The error that `work` has found, or with which it failed if the same may work later.
  kj::Promise<kj::Maybe<kj::String>> attempt(kj::Promise<kj::Maybe<kj::String>> work);

  // For questions about what is in effect.
  kj::Promise<rpc::Node::Client> reach(kj::StringPtr node);
  template <typename Results>
  kj::Promise<capnp::Response<Results>> answer(kj::Promise<capnp::Response<Results>> asked) {
    return within(deps.timer, answerLimit, kj::mv(asked));
  }

 private:
  Dependencies& deps;
  Target target;
  kj::Duration connectLimit, answerLimit;
  ControlPlaneProof proof;
  kj::Maybe<kj::Own<Client>> client;

  struct Read {
    RotatedNode node;
    kj::String document;
    uint64_t version = 0;
    ~Read();
    Read() = default;
    Read(Read&&) = default;
    Read& operator=(Read&&) = default;
  };
  kj::Promise<Read> readConfig(rpc::Node::Client reached, kj::StringPtr node, RotatedCa which);
  kj::Promise<Read> readSame(rpc::Node::Client reached, const RotatedNode& known,
                             const Rotation& rotation, RotationPhase phase);
};

// A copy for another endpoint or connection.
Credentials copyOf(const Credentials& credentials);
kj::String pemOf(capnp::Data::Reader data);

}  // namespace talos::talosctl
