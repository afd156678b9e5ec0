#include "talosctl/views/bpf-filter.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "common/base/error.h"

namespace talos::talosctl {
namespace {

constexpr size_t kMostSteps = BPF_MAXINSNS;
constexpr uint32_t kWhole = 0x40000;  // bytes of a packet to keep: the result in tcpdump's filters

class StepReader {
 public:
  explicit StepReader(kj::StringPtr text) : at(text.cStr()) {}

  kj::Vector<BpfStep> all() {
    kj::Vector<BpfStep> steps;
    for (skipBlanks(); *at != '\0'; skipBlanks()) {
      if (steps.size() == kMostSteps) wrong(kj::str("has more than ", kMostSteps, " instructions"));
      steps.add(one());
    }
    if (steps.empty()) wrong("has no instruction");
    return steps;
  }

 private:
  const char* at;
  unsigned line = 1;

  [[noreturn]] void wrong(kj::StringPtr what) const {
    fail(ErrorKind::kInvalidArgument,
         kj::str("line ", line, " of the filter ", what,
                 "; use what `tcpdump -dd EXPRESSION` prints, such as { 0x6, 0, 0, 0x40000 },"));
  }
  void skipBlanks() {
    for (; *at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'; ++at) line += *at == '\n';
  }
  void expect(char c) {
    skipBlanks();
    if (*at != c) wrong(kj::str("lacks a \"", c, "\""));
    ++at;
  }
  uint32_t number(uint64_t most) {
    skipBlanks();
    if (*at < '0' || *at > '9') wrong("lacks a number");
    char* end;
    errno = 0;
    auto value = strtoull(at, &end, 0);
    if (errno != 0 || value > most) wrong(kj::str("has a number above ", most));
    at = end;
    return static_cast<uint32_t>(value);
  }
  BpfStep one() {
    BpfStep step;
    expect('{');
    step.code = static_cast<uint16_t>(number(0xffff));
    expect(',');
    step.jt = static_cast<uint8_t>(number(0xff));
    expect(',');
    step.jf = static_cast<uint8_t>(number(0xff));
    expect(',');
    step.k = number(0xffffffff);
    expect('}');
    skipBlanks();
    if (*at == ',') ++at;
    return step;
  }
};

constexpr uint32_t kProtocol = static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_PROTOCOL);

// Returns an offset in the network header, which is independent of the link's own header.
constexpr uint32_t atNetwork(uint32_t offset) {
  return static_cast<uint32_t>(SKF_NET_OFF) + offset;
}

}  // namespace

kj::Vector<BpfStep> parseBpfFilter(kj::StringPtr text) {
  return StepReader(text).all();
}

kj::Vector<BpfStep> withoutTcpPort(uint16_t port) {
  constexpr uint8_t kAccept = 18, kRefuse = 19;  // indices of the last two instructions
  kj::Vector<BpfStep> steps;
  auto load = [&](uint16_t code, uint32_t k) { steps.add(BpfStep{code, 0, 0, k}); };
  // A jump names its target; 0 means the next instruction.
  auto jump = [&](uint16_t kind, uint32_t k, uint8_t then, uint8_t otherwise) {
    auto next = static_cast<uint8_t>(steps.size() + 1);
    auto distance = [next](uint8_t to) { return static_cast<uint8_t>(to == 0 ? 0 : to - next); };
    steps.add(BpfStep{static_cast<uint16_t>(BPF_JMP | kind | BPF_K), distance(then),
                      distance(otherwise), k});
  };
  constexpr uint8_t kVersion6 = 12;
  load(BPF_LD | BPF_H | BPF_ABS, kProtocol);
  jump(BPF_JEQ, ETH_P_IPV6, kVersion6, 0);
  jump(BPF_JEQ, ETH_P_IP, 0, kAccept);
  load(BPF_LD | BPF_B | BPF_ABS, atNetwork(9));
  jump(BPF_JEQ, IPPROTO_TCP, 0, kAccept);
  load(BPF_LD | BPF_H | BPF_ABS, atNetwork(6));
  jump(BPF_JSET, 0x1fff, kAccept, 0);  // a later fragment has no ports
  load(BPF_LDX | BPF_B | BPF_MSH, atNetwork(0));
  load(BPF_LD | BPF_H | BPF_IND, atNetwork(0));
  jump(BPF_JEQ, port, kRefuse, 0);
  load(BPF_LD | BPF_H | BPF_IND, atNetwork(2));
  jump(BPF_JEQ, port, kRefuse, kAccept);
  load(BPF_LD | BPF_B | BPF_ABS, atNetwork(6));  // kVersion6
  jump(BPF_JEQ, IPPROTO_TCP, 0, kAccept);
  load(BPF_LD | BPF_H | BPF_ABS, atNetwork(40));
  jump(BPF_JEQ, port, kRefuse, 0);
  load(BPF_LD | BPF_H | BPF_ABS, atNetwork(42));
  jump(BPF_JEQ, port, kRefuse, kAccept);
  load(BPF_RET | BPF_K, kWhole);
  load(BPF_RET | BPF_K, 0);
  return steps;
}

}  // namespace talos::talosctl
