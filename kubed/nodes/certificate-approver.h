// Base of the reconcilers that approve certificate requests of kubelets: watches the open requests
// of one signer, with the machine CA by which the nodes prove what they request, and approves a
// request on behalf of all control-plane nodes. After a crash the requests are listed again.
#pragma once

#include "common/wire/log-line-limit.h"
#include "kubed/nodes/watch-reconciler.h"

namespace talos::kubed {

class CertificateApprover : public WatchReconciler {
 protected:
  // `fields` selects the requests. `failure` is the message of a watch that fails.
  CertificateApprover(const KubedDependencies& deps, const kj::MonotonicClock& monotonic,
                      kj::String fields, kj::StringPtr failure)
      : WatchReconciler(deps.timer, deps.random, deps.changed),
        timer(deps.timer),
        clock(deps.clock),
        lines(monotonic),
        adapter(deps.adapter),
        fields(kj::mv(fields)),
        failure(failure) {}
  ~CertificateApprover() noexcept(false) = default;

  kj::Promise<kj::Maybe<Selection>> select() override;
  void watchStarted() override { logged = kj::str(); }
  kj::Promise<void> failed(kj::String error) override;

  // Resolves with false if another control-plane node was faster, or the request was deleted.
  kj::Promise<bool> approve(SharedKube& server, kj::StringPtr name, kj::StringPtr version,
                            kj::StringPtr reason, kj::StringPtr message);

  kj::Timer& timer;
  const kj::Clock& clock;
  LineLimit lines;
  kj::String machineCa;
  kj::Own<SharedKube> kubernetes;  // the client that watches

 private:
  KubernetesStoreAdapter& adapter;
  kj::String fields;
  kj::StringPtr failure;
  kj::String logged;  // last error
};

}  // namespace talos::kubed
