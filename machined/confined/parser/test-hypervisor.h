// For tests: a model of VMware's side of the port (vmware-port.h), as strict as the protocol
// allows.
#pragma once

#include <string.h>

#include <functional>
#include <map>
#include <string>

#include "machined/confined/parser/vmware-port.h"

namespace talos::parse {

class TestHypervisor {
 public:
  std::map<std::string, std::string> variables;
  // Called before each message of this type; returns true if `registers` are its answer.
  std::function<bool(uint32_t type, PortRegisters& registers)> fault =
      [](uint32_t, PortRegisters&) { return false; };
  bool restricted = false;
  bool readOnly = false, forgetful = false;    // refuses a change; ignores a change
  unsigned open = 0, calls = 0, requests = 0;  // channels; calls of the port; whole requests

  PortCall port() {
    return [this](PortRegisters& registers) { call(registers); };
  }
  static void answerWith(PortRegisters& r, uint32_t status) { r.ecx = status << 16; }

 private:
  static constexpr uint32_t kTestChannel = 3, kCookieHigh = 0x1234'5678, kCookieLow = 0x9abc'def0;
  std::string request, reply;
  size_t expected = 0, given = 0;

  void call(PortRegisters& r) {
    ++calls;
    if (restricted || r.eax != 0x564d'5868 || (r.edx & 0xffff) != 0x5658) {
      r.eax = ~0u;
      return;
    }
    if (r.ecx == 10) {
      r.ebx = r.eax;
      r.eax = 6;
      return;
    }
    auto type = r.ecx >> 16;
    if ((r.ecx & 0xffff) != 0x1e) return answerWith(r, 0);
    if (fault(type, r)) return;
    if (type == 0) return begin(r);
    bool known =
        open > 0 && r.edx >> 16 == kTestChannel && r.esi == kCookieHigh && r.edi == kCookieLow;
    if (!known) return answerWith(r, 0);
    message(type, r);
  }
  void begin(PortRegisters& r) {
    if (r.ebx != 0xc943'5052) return answerWith(r, 0);
    ++open;
    answerWith(r, 1);
    r.edx = kTestChannel << 16;
    r.esi = kCookieHigh;
    r.edi = kCookieLow;
  }
  void message(uint32_t type, PortRegisters& r) {
    switch (type) {
      case 1:
        expected = r.ebx;
        request.clear();
        return answerWith(r, 0x81);  // high bandwidth is offered as well
      case 2:
        if (request.size() >= expected) return answerWith(r, 0);
        request.append(reinterpret_cast<const char*>(&r.ebx),
                       kj::min(sizeof r.ebx, expected - request.size()));
        if (request.size() == expected) take();
        return answerWith(r, 1);
      case 3:
        given = 0;
        r.ebx = static_cast<uint32_t>(reply.size());
        r.edx = 1u << 16;
        return answerWith(r, reply.empty() ? 1 : 3);
      case 4: {
        if (given >= reply.size()) return answerWith(r, 0);
        auto part = reply.substr(given, sizeof r.ebx);
        given += part.size();
        part.resize(sizeof r.ebx, '\xff');
        memcpy(&r.ebx, part.data(), sizeof r.ebx);
        r.edx = 2u << 16;
        return answerWith(r, 1);
      }
      case 5:
        reply.clear();
        return answerWith(r, 1);
      case 6:
        --open;
        return answerWith(r, 1);
      default:
        return answerWith(r, 0);
    }
  }
  void take() {
    ++requests;
    if (request.rfind("info-set ", 0) == 0) return put(request.substr(9));
    auto found =
        request.rfind("info-get ", 0) == 0 ? variables.find(request.substr(9)) : variables.end();
    reply = found == variables.end() ? "0 No value found" : "1 " + found->second;
  }
  void put(const std::string& assignment) {
    auto blank = assignment.find(' ');
    bool whole = blank != std::string::npos && blank + 1 < assignment.size();
    reply = !whole ? "0 Two and exactly two arguments expected" : readOnly ? "0 Read only" : "1 ";
    if (reply == "1 " && !forgetful)
      variables[assignment.substr(0, blank)] = assignment.substr(blank + 1);
  }
};

}  // namespace talos::parse
