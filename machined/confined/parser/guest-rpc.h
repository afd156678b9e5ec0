// Sends requests of a guest to the hypervisor of VMware (RPCI): a text, and its reply, over a
// channel of the port (vmware-port.h), four bytes at a call. After the protocol of open-vm-tools.
//
// The hypervisor is as foreign as any server: a reply has at most kMostReplyBytes, and a request
// that the hypervisor interrupts for a checkpoint is repeated at most kMostCheckpoints times.
#pragma once

#include <kj/array.h>

#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/confined/parser/vmware-port.h"

namespace talos::parse {

// Enough for the base64 of a machine config, within a document of other properties.
constexpr size_t kMostReplyBytes = 2 * machined::kMostConfigBytes;
constexpr unsigned kMostCheckpoints = 8;

class GuestRpc {
 public:
  // Opens a channel. Unavailable if the port or the hypervisor refuses.
  explicit GuestRpc(PortCall port);
  ~GuestRpc() noexcept(false);  // closes it
  KJ_DISALLOW_COPY_AND_MOVE(GuestRpc);

  // Returns a variable of the virtual machine ("guestinfo.userdata"); nullptr if there is no such
  // variable. The caller has to zeroize() it. Unavailable naming the step that the hypervisor
  // refused.
  kj::Maybe<kj::Array<char>> variable(kj::StringPtr name);
  // Sets a variable. Unavailable with the hypervisor's error.
  void set(kj::StringPtr name, kj::StringPtr value);

 private:
  PortCall port;
  uint32_t channel = 0, cookieHigh = 0, cookieLow = 0;

  enum class Done { kYes, kCheckpoint };
  PortRegisters call(uint32_t type, uint32_t value);
  Done tell(kj::ArrayPtr<const char> text);
  Done hear(kj::Array<char>& reply);
  kj::Array<char> ask(kj::ArrayPtr<const char> text);
  // A reply without its first character. The caller has to zeroize() it.
  struct Reply {
    bool good;
    kj::Array<char> text;
  };
  Reply command(kj::StringPtr text);
  void untilDone(kj::FunctionParam<Done()> step);
};

}  // namespace talos::parse
