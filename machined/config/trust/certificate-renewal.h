// Shared parts of certificate controllers: the timer of the next renewal, options of client
// certificates, and filling in a key pair.
#pragma once

#include <kj/function.h>
#include <kj/time.h>
#include <kj/timer.h>

#include "common/kernel/kernel-arguments.h"
#include "common/tls/node-certificate.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {

// Wakes its controller when certificates are due. Checks the wall clock at least once an hour,
// because the clock may be set meanwhile. Keeps no state: the controller schedules again after a
// restart.
class RenewalTimer {
 public:
  // Both must outlive the timer.
  RenewalTimer(kj::Timer& timer, const kj::Clock& clock) : timer(timer), clock(clock) {}
  KJ_DISALLOW_COPY_AND_MOVE(RenewalTimer);

  void wakeBy(kj::Function<void()> function) { wake = kj::mv(function); }  // Controller::wakeBy
  void schedule(kj::Date due);  // replaces an earlier one

 private:
  kj::Timer& timer;
  const kj::Clock& clock;
  kj::Function<void()> wake = [] {};
  kj::Promise<void> renewal = nullptr;
};

pki::LeafOptions clientOptions(kj::StringPtr commonName, kj::Duration lifetime, kj::Date now);
void fillPair(rpc::KeyPair::Builder pair, const pki::CertificateAndKey& issued);
pki::CertificateInfo inspectPair(rpc::KeyPair::Reader pair);

// The lifetime of etcd's and Kubernetes' certificates on a node in a container where a developer
// observes their renewal: the argument talos.debug.certificates=10m. A machine ignores this
// argument. Pure.

// Returns `usual` without the argument, or if it is not a duration from a minute to the usual one;
// reports such a value to `warn`.
kj::Duration certificateLifetime(const KernelArguments& arguments, kj::StringPtr platform,
                                 kj::Duration usual, kj::FunctionParam<void(kj::StringPtr)> warn);

}  // namespace talos::machined
