// The API of Hetzner Cloud for tests, over HTTPS: a project with two servers in one network, a
// floating IP, and actions that take some polls. It refuses what the API refuses: another token, an
// unknown server, an alias that another server has.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "common/net/http-header-names.h"
#include "common/testing/test-http-server.h"
#include "common/tls/pki.h"

namespace talos::vipd {

struct HcloudCertificate {
  pki::CertificateAndKey authority =
      pki::makeAuthority({.organization = "api", .keyType = pki::KeyType::kEcdsaP256});
  pki::CertificateAndKey leaf;
  HcloudCertificate() {
    pki::LeafOptions options{.commonName = "api"};
    options.addresses = kj::arr(kj::str("127.0.0.1"));
    leaf = pki::issue(authority.certificate, authority.key, kj::mv(options));
  }
};

class HcloudModel final : public kj::HttpService {
 public:
  struct Reply {
    unsigned status = 200;
    std::string body;
    bool hangs = false;
  };

  HcloudModel(kj::AsyncIoContext& io, const HcloudCertificate& certificate)
      : server(io, headers.table(), *this,
               {.certificate = certificate.leaf.certificate,
                .key = kj::StringPtr(certificate.leaf.key)}) {}

  std::string token = "t0k3n-0f-the-pr0ject";
  std::map<unsigned, std::vector<std::string>> aliases = {{42, {}}, {43, {}}};  // in network 4711
  std::string joins;  // an alias that another program gives server 42 right after the next change
  unsigned forgets = 0;       // next changes that another program's change of the same list undoes
  unsigned floatingIpAt = 0;  // 203.0.113.7, id 7
  unsigned polls = 0;         // until an action is done
  std::string actionError;    // of the next actions
  unsigned pageSize = 25;     // of the list of servers
  std::deque<Reply> replies;  // next replies; afterwards requests are served
  std::vector<std::string> requests;  // "GET /v1/servers?page=1&per_page=25", with the body

 private:
  struct Headers : public HttpHeaderNames {
    kj::HttpHeaderId authorization = add("Authorization");
  };
  Headers headers;
  unsigned left = 0;  // polls of the action that runs

 public:
  TestHttpServer server;

  kj::Promise<void> request(kj::HttpMethod method, kj::StringPtr url, const kj::HttpHeaders& in,
                            kj::AsyncInputStream& body, Response& response) override {
    auto content = co_await body.readAllText();
    auto line = kj::str(method, " ", url, content.size() > 0 ? " " : "", content);
    requests.push_back(line.cStr());
    if (!replies.empty()) {
      auto reply = replies.front();
      replies.pop_front();
      if (reply.hangs) co_await kj::Promise<void>(kj::NEVER_DONE);
      co_return co_await answer(response, reply.status, reply.body);
    }
    auto given = in.get(headers.authorization).orDefault("");
    if (given != kj::str("Bearer ", token.c_str())) {
      co_return co_await answer(
          response, 401,
          kj::str(R"({"error":{"code":"unauthorized","message":"unable to authenticate )", given,
                  "\"}}")
              .cStr());
    }
    auto reply = serve(line.cStr());
    co_await answer(response, reply.status, reply.body);
  }

 private:
  Reply serve(const std::string& line) {
    auto is = [&](const char* start) { return line.rfind(start, 0) == 0; };
    if (is("GET /v1/servers?page=")) return {.body = serversFrom(std::stoul(line.substr(21)))};
    if (is("GET /v1/floating_ips?")) {
      return {.body = "{\"floating_ips\":[" + floatingIp() + "]}"};
    }
    if (is("GET /v1/floating_ips/7")) return {.body = "{\"floating_ip\":" + floatingIp() + "}"};
    if (is("GET /v1/networks?")) {
      return {.body = R"({"networks":[{"id":4711,"ip_range":"10.0.0.0/16"}]})"};
    }
    if (is("GET /v1/actions/99")) return {.body = action()};
    left = polls;
    if (is("POST /v1/floating_ips/7/actions/assign {\"server\":")) {
      floatingIpAt = static_cast<unsigned>(std::stoul(line.substr(line.find(' ', 5) + 11)));
      return {.status = 201, .body = action()};
    }
    for (auto& [id, own] : aliases) {
      auto start = kj::str("POST /v1/servers/", id,
                           "/actions/change_alias_ips "
                           "{\"network\":4711,\"alias_ips\":[");
      if (!is(start.cStr())) continue;
      auto list = line.substr(start.size(), line.size() - start.size() - 2);
      return change(id, list);
    }
    return {.status = 404, .body = R"({"error":{"code":"not_found","message":"not found"}})"};
  }

  Reply change(unsigned id, const std::string& list) {
    std::vector<std::string> wanted;
    for (size_t at = 0; (at = list.find('"', at)) != list.npos;) {
      auto end = list.find('"', at + 1);
      wanted.push_back(list.substr(at + 1, end - at - 1));
      at = end + 1;
    }
    for (auto& [other, has] : aliases) {
      for (auto& alias : wanted) {
        if (other == id || std::find(has.begin(), has.end(), alias) == has.end()) continue;
        return {.status = 422,
                .body = R"({"error":{"code":"ip_not_available","message":"in use"}})"};
      }
    }
    if (forgets == 0) aliases[id] = wanted;
    if (forgets > 0) --forgets;
    if (!joins.empty()) aliases[42].push_back(joins);
    joins.clear();
    return {.status = 201, .body = action()};
  }

  std::string action() {
    if (left > 0) {
      --left;
      return R"({"action":{"id":99,"status":"running","error":null}})";
    }
    if (actionError.empty()) return R"({"action":{"id":99,"status":"success","error":null}})";
    return R"({"action":{"id":99,"status":"error","error":{"code":"x","message":")" + actionError +
           "\"}}}";
  }

  std::string floatingIp() {
    return R"({"id":7,"ip":"203.0.113.7","type":"ipv4","server":)" +
           (floatingIpAt == 0 ? std::string("null") : std::to_string(floatingIpAt)) + "}";
  }

  std::string serversFrom(unsigned long page) {
    std::string list;
    unsigned long index = 0, first = (page - 1) * pageSize;
    for (auto& [id, own] : aliases) {
      auto here = index++;
      if (here < first || here >= first + pageSize) continue;
      std::string quoted;
      for (auto& alias : own) quoted += (quoted.empty() ? "\"" : ",\"") + alias + "\"";
      list += (list.empty() ? "" : ",") + std::string("{\"id\":") + std::to_string(id) +
              ",\"public_net\":{\"ipv4\":{\"ip\":\"198.51.100." + std::to_string(id) +
              "\"}},\"private_net\":[{\"network\":4711,\"ip\":\"10.0.0." + std::to_string(id) +
              "\",\"alias_ips\":[" + quoted + "]}]}";
    }
    bool more = index > first + pageSize;
    return "{\"servers\":[" + list + "],\"meta\":{\"pagination\":{\"next_page\":" +
           (more ? std::to_string(page + 1) : "null") + "}}}";
  }

  kj::Promise<void> answer(Response& response, unsigned status, std::string body) {
    kj::HttpHeaders out(headers.table());
    auto stream = response.send(status, "Text", out, body.size());
    if (!body.empty()) co_await stream->write(body.data(), body.size());
  }
};

}  // namespace talos::vipd
