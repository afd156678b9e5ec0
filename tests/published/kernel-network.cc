#include "tests/published/kernel-network.h"

#include <arpa/inet.h>
#include <kj/debug.h>
#include <stdint.h>
#include <stdio.h>

#include <bit>
#include <sstream>
#include <vector>

#include "tests/harness/process.h"

namespace talos::published {
namespace {

using harness::lines;

constexpr const char* kDefault4 = "0.0.0.0/0";
constexpr const char* kDefault6 = "::/0";
constexpr const char* kListening = "0A";  // the state of a socket of TCP

std::vector<std::string> fieldsOf(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> fields;
  for (std::string field; stream >> field;) fields.push_back(field);
  return fields;
}

struct Cidr {
  std::string address;
  unsigned length;
};
Cidr parsed(const std::string& text) {
  auto slash = text.find('/');
  KJ_REQUIRE(slash != std::string::npos, "no prefix length", text.c_str());
  return {text.substr(0, slash), unsigned(std::stoul(text.substr(slash + 1)))};
}

// Returns the bytes of the network in the order in which the kernel has them in memory.
uint32_t raw4(const std::string& address) {
  in_addr parsed;
  KJ_REQUIRE(inet_pton(AF_INET, address.c_str(), &parsed) == 1, address.c_str());
  return parsed.s_addr;
}
uint32_t mask4(unsigned length) {
  return length == 0 ? 0 : htonl(~uint32_t{0} << (32 - length));
}
// /proc/net prints addresses of IPv4 as numbers of the processor.
std::string hex4(uint32_t raw) {
  char text[9];
  snprintf(text, sizeof text, "%08X", raw);
  return text;
}
std::string text4(const std::string& hex) {
  in_addr raw{uint32_t(std::stoul(hex, nullptr, 16))};
  char text[INET_ADDRSTRLEN];
  return inet_ntop(AF_INET, &raw, text, sizeof text);
}
std::string hex6(const std::string& address) {
  in6_addr parsed;
  KJ_REQUIRE(inet_pton(AF_INET6, address.c_str(), &parsed) == 1, address.c_str());
  std::string text;
  for (auto byte : parsed.s6_addr) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

// A row of /proc/net/route.
struct Row {
  std::string link, destination, gateway, metric, mask;
};
std::vector<Row> rowsOf(const std::string& routes) {
  std::vector<Row> rows;
  for (auto& line : lines(routes)) {
    auto fields = fieldsOf(line);
    if (fields.size() < 8 || fields[0] == "Iface") continue;
    rows.push_back({fields[0], fields[1], fields[2], fields[6], fields[7]});
  }
  return rows;
}

}  // namespace

bool isLocal4(const std::string& fibTrie, const std::string& address) {
  bool isNext = false;
  for (auto& line : lines(fibTrie)) {
    auto fields = fieldsOf(line);
    if (fields.size() == 2 && fields[0] == "|--") isNext = fields[1] == address;
    if (isNext && fields.size() == 3 && fields[1] == "host" && fields[2] == "LOCAL") return true;
  }
  return false;
}

bool hasAddress4(const std::string& fibTrie, const std::string& routes, const std::string& link,
                 const std::string& cidr) {
  auto [address, length] = parsed(cidr);
  if (!isLocal4(fibTrie, address)) return false;
  if (length == 32) return true;
  auto mask = mask4(length), network = raw4(address) & mask;
  for (auto& row : rowsOf(routes)) {
    if (row.link == link && row.destination == hex4(network) && row.mask == hex4(mask) &&
        row.gateway == hex4(0))
      return true;
  }
  return false;
}

bool hasAddress6(const std::string& ifInet6, const std::string& link, const std::string& cidr) {
  auto [address, length] = parsed(cidr);
  for (auto& line : lines(ifInet6)) {
    // Address, number of the link, prefix length, scope, flags, link.
    auto fields = fieldsOf(line);
    if (fields.size() == 6 && fields[0] == hex6(address) && fields[5] == link &&
        std::stoul(fields[2], nullptr, 16) == length)
      return true;
  }
  return false;
}

bool hasRoute4(const std::string& routes, const Route& wanted) {
  auto [address, length] = parsed(wanted.destination == "default" ? kDefault4 : wanted.destination);
  for (auto& row : rowsOf(routes)) {
    if (row.link == wanted.link && row.destination == hex4(raw4(address)) &&
        row.mask == hex4(mask4(length)) && row.gateway == hex4(raw4(wanted.gateway)) &&
        (wanted.metric.empty() || wanted.metric == row.metric))
      return true;
  }
  return false;
}

bool hasRoute6(const std::string& ipv6Routes, const Route& wanted) {
  auto [address, length] = parsed(wanted.destination == "default" ? kDefault6 : wanted.destination);
  for (auto& line : lines(ipv6Routes)) {
    // Destination and its length, source and its length, gateway, metric, …, link.
    auto fields = fieldsOf(line);
    if (fields.size() != 10 || fields[0] != hex6(address) || fields[4] != hex6(wanted.gateway))
      continue;
    bool metric =
        wanted.metric.empty() || std::stoul(fields[5], nullptr, 16) == std::stoul(wanted.metric);
    if (std::stoul(fields[1], nullptr, 16) == length && metric && fields[9] == wanted.link)
      return true;
  }
  return false;
}

std::string shownRoutes(const std::string& routes) {
  std::string shown;
  for (auto& row : rowsOf(routes)) {
    auto length = std::popcount(uint32_t(std::stoul(row.mask, nullptr, 16)));
    shown += (shown.empty() ? "" : "; ") + text4(row.destination) + "/" + std::to_string(length) +
             " via " + text4(row.gateway) + " dev " + row.link + " metric " + row.metric;
  }
  return "routes: " + shown;
}

bool hasSocket(const std::string& sockets, Protocol protocol, const std::string& address,
               int port) {
  char number[8];
  snprintf(number, sizeof number, ":%04X", unsigned(port) & 0xffff);
  auto local = hex4(raw4(address)) + number;
  for (auto& line : lines(sockets)) {
    auto fields = fieldsOf(line);
    if (fields.size() > 3 && fields[1] == local &&
        (protocol == Protocol::kUdp || fields[3] == kListening))
      return true;
  }
  return false;
}

}  // namespace talos::published
