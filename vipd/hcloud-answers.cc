#include "vipd/hcloud-answers.h"

#include "common/base/error.h"
#include "common/kube/json.h"
#include "common/text/foreign-text.h"
#include "common/text/secret-text.h"

namespace talos::vipd {
namespace {

using kube::Json;

constexpr kj::StringPtr kWhat = "the answer of Hetzner's API"_kj;
constexpr size_t kLongestText = 300;
// Hetzner permits 3 networks for each server, and 5 alias IPs in each of them.
constexpr size_t kMostNetworks = 10, kMostAliases = 20;

[[noreturn]] void malformed(kj::StringPtr problem) {
  fail(ErrorKind::kInvalidArgument, kj::str(kWhat, " ", problem));
}

uint64_t positive(const Json& value, kube::JsonPath path) {
  auto number = kube::numberAt(value, path);
  return number > 0 ? static_cast<uint64_t>(number) : 0;
}

uint64_t idOf(const Json& item, kj::StringPtr what) {
  auto id = positive(item, {"id"});
  if (id == 0) malformed(kj::str("has ", what, " without an id"));
  return id;
}

// Returns the list at this key, which must be there, with `most` items at most.
kj::Vector<const Json*> listAt(const Json& value, kj::StringPtr key, size_t most) {
  size_t size = 0;
  bool found = false;
  KJ_IF_MAYBE (list, kube::find(value, {key})) {
    found = list->is_array();
    size = list->size();
  }
  if (!found) malformed(kj::str("has no list of ", key));
  if (size > most) malformed(kj::str("has more than ", most, " ", key));
  return kube::itemsAt(value, {key});
}

// An IPv6 address has the length of its network with it.
kj::Maybe<Prefix> prefixAt(const Json& item, kube::JsonPath path) {
  auto text = kube::textAt(item, path);
  KJ_IF_MAYBE (prefix, Prefix::parse(text)) return *prefix;
  KJ_IF_MAYBE (address, Ip::parse(text)) return Prefix::host(*address);
  return nullptr;
}

HcloudServer serverOf(const Json& item) {
  HcloudServer server{.id = idOf(item, "a server"), .addresses = {}, .networks = {}};
  auto add = [&](const Json& holder, kube::JsonPath path) {
    KJ_IF_MAYBE (prefix, prefixAt(holder, path)) server.addresses.add(*prefix);
  };
  add(item, {"public_net", "ipv4", "ip"});
  add(item, {"public_net", "ipv6", "ip"});
  auto networks = kube::itemsAt(item, {"private_net"});
  if (networks.size() > kMostNetworks) malformed("has a server in too many networks");
  for (auto net : networks) {
    HcloudServer::Attachment attachment{.network = positive(*net, {"network"}), .aliases = {}};
    if (attachment.network == 0) malformed("has a private network without an id");
    add(*net, {"ip"});
    // A list that is written back must be whole.
    for (auto alias : listAt(*net, "alias_ips", kMostAliases)) {
      KJ_IF_MAYBE (prefix, prefixAt(*alias, {})) {
        attachment.aliases.add(prefix->address);
      } else {
        malformed("has an alias IP that is not an address");
      }
    }
    server.networks.add(kj::mv(attachment));
  }
  return server;
}

HcloudFloatingIp floatingIpOf(const Json& item) {
  HcloudFloatingIp ip{.id = idOf(item, "a floating IP"), .address = {}, .server = 0};
  KJ_IF_MAYBE (prefix, prefixAt(item, {"ip"})) {
    ip.address = *prefix;
  } else {
    malformed("has a floating IP without an address");
  }
  ip.server = positive(item, {"server"});
  return ip;
}

HcloudNetwork networkOf(const Json& item) {
  HcloudNetwork network{.id = idOf(item, "a network"), .range = {}};
  KJ_IF_MAYBE (prefix, prefixAt(item, {"ip_range"})) {
    network.range = *prefix;
  } else {
    malformed("has a network without a range");
  }
  return network;
}

template <typename Item>
HcloudPage<Item> pageOf(kj::ArrayPtr<const char> body, kj::StringPtr key,
                        Item (*read)(const Json&)) {
  auto value = kube::readJson(body, kWhat);
  HcloudPage<Item> page;
  for (auto item : listAt(value, key, kHcloudPageItems)) page.items.add(read(*item));
  auto next = positive(value, {"meta", "pagination", "next_page"});
  page.next = static_cast<unsigned>(kj::min(next, uint64_t(kj::maxValue) >> 33));
  return page;
}

}  // namespace

HcloudPage<HcloudServer> readHcloudServers(kj::ArrayPtr<const char> body) {
  return pageOf<HcloudServer>(body, "servers", serverOf);
}

HcloudPage<HcloudFloatingIp> readHcloudFloatingIps(kj::ArrayPtr<const char> body) {
  return pageOf<HcloudFloatingIp>(body, "floating_ips", floatingIpOf);
}

HcloudFloatingIp readHcloudFloatingIp(kj::ArrayPtr<const char> body) {
  auto value = kube::readJson(body, kWhat);
  KJ_IF_MAYBE (ip, kube::find(value, {"floating_ip"})) return floatingIpOf(*ip);
  malformed("has no floating IP");
}

HcloudPage<HcloudNetwork> readHcloudNetworks(kj::ArrayPtr<const char> body) {
  return pageOf<HcloudNetwork>(body, "networks", networkOf);
}

HcloudAction readHcloudAction(kj::ArrayPtr<const char> body, kj::StringPtr secret) {
  auto value = kube::readJson(body, kWhat);
  HcloudAction action;
  KJ_IF_MAYBE (found, kube::find(value, {"action"})) {
    action.id = idOf(*found, "an action");
    auto status = kube::textAt(*found, {"status"});
    action.running = status == "running";
    if (status == "error") {
      action.problem = kj::str(kube::textAt(*found, {"error", "message"}));
      if (action.problem.size() == 0) action.problem = kj::str("it gives no reason");
      action.problem = fieldText(withoutSecret(action.problem, secret), kLongestText);
    } else if (status != "running" && status != "success") {
      malformed("has an action of an unknown status");
    }
    return action;
  }
  malformed("has no action");
}

kj::String readHcloudError(unsigned status, kj::StringPtr statusText, kj::ArrayPtr<const char> body,
                           kj::StringPtr secret) {
  auto text = kj::str(status, " ", statusText);
  // Proxies answer with pages of HTML.
  (void)kj::runCatchingExceptions([&] {
    auto value = kube::readJson(body, kWhat);
    auto message = kube::textAt(value, {"error", "message"});
    auto code = kube::textAt(value, {"error", "code"});
    if (message.size() > 0) text = kj::str(text, ": ", message);
    if (code.size() > 0) text = kj::str(text, " (", code, ")");
  });
  return fieldText(withoutSecret(text, secret), kLongestText);
}

}  // namespace talos::vipd
