// The nodes of a cluster whose CA is rotated, accessed over the API: their configs, and the state
// in effect.
//
// Holds one connection and reconnects when it has ended. No call takes longer than some seconds.
// Holds keys, and zeroes them in its destructor. A key is sent to a node only over the connection
// on which the node has just proved, with the same answer as before, that it may have the key.
#pragma once

#include "talosctl/client/cluster-client.h"
#include "talosctl/rollout/attempts.h"
#include "talosctl/rollout/node-calls.h"
#include "talosctl/rotate-ca/rotation-plan.h"

namespace talos::talosctl {

struct ClusterMember {
  kj::String name;
  bool controlPlane = false;
  kj::Vector<kj::String> addresses;
};

class RemoteRotation {
 public:
  // `limit`: limit of each connection and each answer, in addition to its own.
  RemoteRotation(Dependencies& deps, Target target, kj::Duration limit);
  KJ_DISALLOW_COPY_AND_MOVE(RemoteRotation);

  // Uses these credentials from the next connection on. From then on only the key of their CA is
  // evidence of a control-plane node.
  void use(Credentials fresh);
  ControlPlaneProof& controlPlaneProof() { return proof; }
  kj::ArrayPtr<const kj::String> endpoints() const { return target.endpoints; }
  kj::Promise<void> connect();

  // Returns the members of Kubernetes that this node lists; empty without Kubernetes.
  kj::Promise<kj::Vector<ClusterMember>> members(kj::StringPtr node);
  kj::Promise<RotatedNode> read(kj::StringPtr node, RotatedCa which);

  // Returns the reason why the config is not in effect yet, or nullptr.
  using Served = Attempt;
  // Tries once to bring the node to the end of the phase. Returns the remaining error, or nullptr.
  // FailedPrecondition if the node has changed its answer (node-roles.h): nothing is sent to it.
  // Once its config is that of the phase, `node` has the config's fields.
  kj::Promise<Missing> advance(RotatedNode& node, const Rotation& rotation, RotationPhase phase,
                               Served& served);
  // Does the same without a change.
  kj::Promise<Missing> look(RotatedNode& node, const Rotation& rotation, RotationPhase phase,
                            Served& served);
  // Returns the error of a client with these credentials at this endpoint.
  kj::Promise<Missing> tryClient(kj::StringPtr endpoint, const Credentials& credentials);

  // Returns the error that `work` has found, or the error with which it failed if a retry may
  // succeed.
  kj::Promise<Missing> attempt(kj::Promise<Missing> work);

  // Returns the node, its Kubernetes or its etcd, for requests about the state in effect.
  kj::Promise<rpc::Node::Client> reach(kj::StringPtr node);
  kj::Promise<rpc::Kubernetes::Client> kubernetes(const RotatedNode& node);
  kj::Promise<rpc::Etcd::Client> etcd(const RotatedNode& node);
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
    RunningConfig running;
    ~Read();
    Read() = default;
    Read(Read&&) = default;
    Read& operator=(Read&&) = default;
  };
  kj::Promise<Read> readConfig(rpc::Node::Client reached, kj::StringPtr node, RotatedCa which);
  kj::Promise<Read> readSame(rpc::Node::Client reached, const RotatedNode& known,
                             const Rotation& rotation, RotationPhase phase);
};

// Copies the credentials for another endpoint or connection.
Credentials copyOf(const Credentials& credentials);
kj::String pemOf(capnp::Data::Reader data);

}  // namespace talos::talosctl
