// Requests of a guest to the hypervisor of VMware (RPCI): a text, and its reply, over a channel of
// the port (vmware-port.h), four bytes at a call. After the protocol of open-vm-tools.
//
// The hypervisor is as foreign as any server: a reply has at most kMostReplyBytes, and a request
// that the hypervisor interrupts for a checkpoint is begun again at most kMostCheckpoints times, so
// that there is an end.
#pragma once

#include <kj/array.h>

#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/confined/parser/vmware-port.h"

namespace talos::parse {

// The base64 of a machine config, and around it a document of other properties.
constexpr size_t kMostReplyBytes = 2 * machined::kMostConfigBytes;
constexpr unsigned kMostCheckpoints = 8;

class GuestRpc {
 public:
  // Opens a channel. Unavailable when the port or the hypervisor does not.
  explicit GuestRpc(PortCall port);
  ~GuestRpc() noexcept(false);  // closes it
  KJ_DISALLOW_COPY_AND_MOVE(GuestRpc);

  // A variable of the virtual machine: "guestinfo.userdata". None: there is no such variable. The
  // caller's to zeroize(). Unavailable naming the step that the hypervisor refused.
  kj::Maybe<kj::Array<char>> variable(kj::StringPtr name);
  // Gives it another value. Unavailable with the hypervisor's reason.
  void set(kj::StringPtr name, kj::StringPtr value);

 private:
  PortCall port;
  uint32_t channel = 0, cookieHigh = 0, cookieLow = 0;

  enum class Done { kYes, kCheckpoint };
  PortRegisters call(uint32_t type, uint32_t value);
  Done tell(kj::ArrayPtr<const char> text);
  Done hear(kj::Array<char>& reply);
  kj::Array<char> ask(kj::ArrayPtr<const char> text);
  // The reply without its mark. The caller's to zeroize().
  struct Reply {
    bool good;
    kj::Array<char> text;
  };
  Reply command(kj::StringPtr text);
  void untilDone(kj::FunctionParam<Done()> step);
};

}  // namespace talos::parse
