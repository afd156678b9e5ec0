// network.HostnameController: sets the kernel's host name from the store and writes /etc/hostname
// (a link to /system/etc). networkd does not set it, because the capability for this would allow
// networkd far more.
#pragma once

#include "machined/resources/controller-runtime.h"

namespace talos::machined {

class HostnameController final : public Controller {
 public:
  // Applies the names: sethostname(2), setdomainname(2) and the files.
  using Apply = kj::Function<void(kj::StringPtr hostname, kj::StringPtr domainname)>;
  explicit HostnameController(Apply apply) : apply(kj::mv(apply)) {}

  kj::StringPtr name() const override { return "network.HostnameController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store& store) override;

 private:
  Apply apply;
  kj::String hostname, domainname;  // names as last applied
};

}  // namespace talos::machined
