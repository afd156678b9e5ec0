// Shared parts of certificate controllers: the timer of the next renewal, options of client
// certificates, and filling in a key pair.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

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

}  // namespace talos::machined
