// Rotates the CA of the machine API (rotation-run.h). Nothing restarts.
//
// A client configuration of the new CA is written when the first node has the key of the new CA:
// from then on any user with the file can use it.
#pragma once

#include "common/config/talosconfig.h"
#include "talosctl/rotate-ca/rotation-run.h"

namespace talos::talosctl {

class MachineRotation final : public RotationRun {
 public:
  // `present`: the credentials with which `cluster` was created. The other arguments must outlive
  // the object.
  MachineRotation(Invocation& call, RemoteRotation& cluster, const RotationOptions& options,
                  Credentials present)
      : RotationRun(call, cluster, options, RotatedCa::kMachine), present(kj::mv(present)) {}

 private:
  Credentials present;           // credentials of the user
  kj::Maybe<Credentials> fresh;  // credentials of the new CA
  bool oldClient = false;        // the user's certificate is of the old CA
  bool written = false;          // the new client configuration is in its file

  kj::Promise<void> readMore() override;
  kj::StringPtr owner() const override { return "the machine API"_kj; }
  kj::Promise<void> prepare() override;
  void showMore() override;
  kj::Promise<void> begin(RotationPhase phase) override;
  kj::Promise<kj::Maybe<kj::String>> served(const RotatedNode& node, RotationPhase phase) override;
  void reached(RotationPhase phase) override;
  kj::Promise<void> tryClients(RotationPhase phase) override;
  kj::Promise<void> finish() override;
  kj::Duration pause() const override { return 200 * kj::MILLISECONDS; }

  struct ApiCertificates {
    kj::String trusted, server;  // as PEM
  };
  kj::Promise<ApiCertificates> apiCertificates(const RotatedNode& node);
  kj::Promise<void> listTokens();
  void checkOutput();
  void makeClient();
  void writeClient();
  kj::Promise<void> tryEndpoint(kj::StringPtr endpoint, RotationPhase phase);
};

}  // namespace talos::talosctl
