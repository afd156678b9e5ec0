#include "machined/confined/parser/guest-rpc.h"

#include <string.h>

#include "common/base/error.h"
#include "common/memory/zeroize.h"

namespace talos::parse {
namespace {

constexpr uint32_t kMagic = 0x564d'5868, kPort = 0x5658;
// Commands in the lower half of ECX.
constexpr uint32_t kGetVersion = 10, kMessage = 0x1e;
// Types of messages, in the upper half of ECX with a request and with the hypervisor's answer.
enum Type : uint32_t {
  kOpen,
  kSendSize,
  kSendData,
  kReceiveSize,
  kReceiveData,
  kAcknowledge,
  kClose
};
constexpr uint32_t kSuccess = 1, kReplyWaits = 2, kCheckpointed = 0x10;
// "RPCI", with a cookie.
constexpr uint32_t kProtocol = 0x4943'5052 | 0x8000'0000;

[[noreturn]] void refused(kj::StringPtr step) {
  fail(ErrorKind::kUnavailable, kj::str("the hypervisor refused ", step));
}

uint32_t upper(uint32_t value) {
  return value >> 16;
}
bool succeeded(const PortRegisters& r) {
  return (upper(r.ecx) & kSuccess) != 0;
}
bool interrupted(const PortRegisters& r) {
  return (upper(r.ecx) & kCheckpointed) != 0;
}

}  // namespace

GuestRpc::GuestRpc(PortCall p) : port(kj::mv(p)) {
  // A machine with the port switched off answers as a port without a device does.
  PortRegisters version{.eax = kMagic, .ebx = ~kMagic, .ecx = kGetVersion, .edx = kPort};
  port(version);
  if (version.ebx != kMagic) {
    fail(
        ErrorKind::kUnavailable,
        "the hypervisor does not answer on its port; the configuration of the virtual machine must "
        "not restrict it (monitor_control.restrict_backdoor)");
  }
  auto opened = call(kOpen, kProtocol);
  if (!succeeded(opened)) refused("to open a channel");
  channel = upper(opened.edx);
  cookieHigh = opened.esi;
  cookieLow = opened.edi;
}

GuestRpc::~GuestRpc() noexcept(false) {
  call(kClose, 0);  // the hypervisor closes the channel itself after some time, whatever it answers
}

PortRegisters GuestRpc::call(uint32_t type, uint32_t value) {
  PortRegisters r{.eax = kMagic,
                  .ebx = value,
                  .ecx = type << 16 | kMessage,
                  .edx = channel << 16 | kPort,
                  .esi = cookieHigh,
                  .edi = cookieLow};
  port(r);
  return r;
}

GuestRpc::Done GuestRpc::tell(kj::ArrayPtr<const char> text) {
  if (!succeeded(call(kSendSize, static_cast<uint32_t>(text.size())))) refused("a request");
  while (text.size() > 0) {
    uint32_t part = 0;
    auto size = kj::min(text.size(), sizeof part);
    memcpy(&part, text.begin(), size);
    auto answer = call(kSendData, part);
    if (!succeeded(answer)) {
      if (interrupted(answer)) return Done::kCheckpoint;
      refused("a part of a request");
    }
    text = text.slice(size, text.size());
  }
  return Done::kYes;
}

GuestRpc::Done GuestRpc::hear(kj::Array<char>& reply) {
  auto first = call(kReceiveSize, 0);
  if (!succeeded(first)) refused("to say how long its reply is");
  if ((upper(first.ecx) & kReplyWaits) == 0 || upper(first.edx) != kSendSize) {
    fail(ErrorKind::kUnavailable, "the hypervisor has no reply to a request");
  }
  if (first.ebx > kMostReplyBytes) {
    call(kAcknowledge, 0);
    fail(ErrorKind::kUnavailable,
         kj::str("the reply of the hypervisor is larger than ", kMostReplyBytes >> 20, " MiB"));
  }
  zeroize(reply);
  reply = kj::heapArray<char>(first.ebx);
  for (size_t at = 0; at < reply.size();) {
    auto answer = call(kReceiveData, kSuccess);
    if (!succeeded(answer)) {
      if (interrupted(answer)) return Done::kCheckpoint;
      call(kAcknowledge, 0);
      refused("a part of its reply");
    }
    if (upper(answer.edx) != kSendData) {
      fail(ErrorKind::kUnavailable, "the reply of the hypervisor ended before its end");
    }
    auto size = kj::min(reply.size() - at, sizeof answer.ebx);
    memcpy(reply.begin() + at, &answer.ebx, size);
    at += size;
  }
  auto end = call(kAcknowledge, kSuccess);
  if (succeeded(end)) return Done::kYes;
  if (interrupted(end)) return Done::kCheckpoint;
  refused("the acknowledgement of its reply");
}

void GuestRpc::untilDone(kj::FunctionParam<Done()> step) {
  for (unsigned i = 0; i <= kMostCheckpoints; ++i) {
    if (step() == Done::kYes) return;
  }
  fail(ErrorKind::kUnavailable, kj::str("the hypervisor interrupted a request ",
                                        kMostCheckpoints + 1, " times for a checkpoint"));
}

kj::Array<char> GuestRpc::ask(kj::ArrayPtr<const char> text) {
  untilDone([&]() { return tell(text); });
  kj::Array<char> reply;
  KJ_ON_SCOPE_FAILURE(zeroize(reply));
  untilDone([&]() { return hear(reply); });
  return reply;
}

// The reply is "1 <value>", or "0 <error>".
GuestRpc::Reply GuestRpc::command(kj::StringPtr text) {
  auto reply = ask(text);
  KJ_DEFER(zeroize(reply));
  bool known = reply.size() > 0 && (reply[0] == '0' || reply[0] == '1') &&
               (reply.size() == 1 || reply[1] == ' ');
  if (!known) {
    fail(ErrorKind::kUnavailable,
         "the reply of the hypervisor begins with neither \"1 \" nor \"0 \"");
  }
  return {reply[0] == '1',
          kj::heapArray<char>(reply.slice(kj::min(reply.size(), size_t{2}), reply.size()))};
}

kj::Maybe<kj::Array<char>> GuestRpc::variable(kj::StringPtr name) {
  auto reply = command(kj::str("info-get ", name));
  if (!reply.good) return nullptr;
  return kj::mv(reply.text);
}

void GuestRpc::set(kj::StringPtr name, kj::StringPtr value) {
  auto reply = command(kj::str("info-set ", name, " ", value));
  if (reply.good) return;
  fail(ErrorKind::kUnavailable, kj::str("the hypervisor does not change ", name, ": ", reply.text));
}

}  // namespace talos::parse
