#include "vipd/hcloud.h"

#include <kj/compat/http.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "common/net/http-body.h"
#include "common/net/http-header-names.h"
#include "common/text/foreign-text.h"
#include "common/text/secret-text.h"
#include "common/tls/tls.h"
#include "vipd/hcloud-place.h"

namespace talos::vipd {
namespace {

constexpr unsigned kMostPages = 100;
// An alias moves by two changes if nothing else changes the lists.
constexpr unsigned kMostChanges = 6;

struct HeaderIds : public HttpHeaderNames {
  kj::HttpHeaderId authorization = add("Authorization"), userAgent = add("User-Agent");
};

class Hcloud final : public Provider {
 public:
  Hcloud(HcloudDependencies& deps, const Ip& address, kj::String token, kj::StringPtr host,
         uint16_t port)
      : deps(deps),
        address(address),
        token(kj::mv(token)),
        host(kj::str(host)),
        port(port),
        authority(port == 443 ? kj::str(host) : kj::str(host, ":", port)),
        dialed(host, [this] { return dial(); }) {}

  kj::StringPtr name() const override { return "Hetzner Cloud"; }

  kj::Promise<void> find(Machine self) override {
    auto http = begin();
    auto servers = co_await list<HcloudServer>(*http, "/v1/servers", readHcloudServers);
    auto ips = co_await list<HcloudFloatingIp>(*http, "/v1/floating_ips", readHcloudFloatingIps);
    auto networks = co_await list<HcloudNetwork>(*http, "/v1/networks", readHcloudNetworks);
    place = findHcloudPlace(address, self, servers, ips, networks);
  }

  kj::Promise<bool> assign() override {
    auto http = begin();
    if (place.floatingIp != 0) co_return co_await assignFloatingIp(*http);
    co_return co_await assignAlias(*http);
  }

 private:
  HcloudDependencies& deps;
  Ip address;
  kj::String token, host;
  uint16_t port;
  kj::String authority;  // as in URLs
  HeaderIds ids;
  DialedAddress dialed;
  HcloudPlace place;
  kj::Maybe<kj::Own<TlsVerifier>> verifier;
  bool untrusted = false;  // The verifier's CAs have not signed the API's certificate.

  // Starts the calls of one look or move, which share a connection.
  kj::Own<kj::HttpClient> begin() {
    if (untrusted) verifier = nullptr;
    untrusted = false;
    return kj::newHttpClient(deps.dial.timer, ids.table(), dialed);
  }

  kj::Promise<kj::Own<kj::AsyncIoStream>> dial() {
    auto stream = co_await dialHost(deps.dial, kj::str(host), port);
    // A call that ends with the lease must not arrive later: by default the kernel of a node that
    // is cut off sends the rest of a closed connection for minutes, after another node has the
    // address.
    struct linger discard = {.l_onoff = 1, .l_linger = 0};
    stream->setsockopt(SOL_SOCKET, SO_LINGER, &discard, sizeof discard);
    if (verifier == nullptr) verifier = kj::heap<TlsVerifier>(deps.authorities());
    co_return co_await KJ_ASSERT_NONNULL(verifier)->connect(kj::mv(stream), host);
  }

  // Returns the body of a successful answer.
  kj::Promise<kj::Array<char>> call(kj::HttpClient& http, kj::HttpMethod method, kj::String path,
                                    kj::String body = nullptr) {
    kj::Maybe<kj::Exception> failure;
    try {
      co_return co_await within(deps.dial.timer, kHcloudCall, exchange(http, method, path, body),
                                kj::str("no answer within ", kHcloudCall), ErrorKind::kUnavailable);
    } catch (...) {
      failure = kj::getCaughtExceptionAsKj();
    }
    auto& e = KJ_ASSERT_NONNULL(failure);
    untrusted = kindOf(e) == ErrorKind::kUnauthenticated;
    fail(kindOf(e), kj::str(method, " ", path, ": ", withoutSecret(messageOf(e), token)));
  }

  kj::Promise<kj::Array<char>> exchange(kj::HttpClient& http, kj::HttpMethod method,
                                        kj::StringPtr path, kj::StringPtr body) {
    kj::HttpHeaders headers(ids.table());
    headers.set(kj::HttpHeaderId::HOST, authority);
    headers.set(ids.userAgent, "vipd");
    headers.set(ids.authorization, kj::str("Bearer ", token));
    if (body.size() > 0) headers.set(kj::HttpHeaderId::CONTENT_TYPE, "application/json");
    auto sent = http.request(method, path, headers, uint64_t(body.size()));
    if (body.size() > 0) co_await sent.body->write(body.begin(), body.size());
    sent.body = nullptr;
    auto response = co_await sent.response;
    auto answer = co_await readBody(*response.body, kMostHcloudAnswer,
                                    kj::str("the answer is too long"), ErrorKind::kUnavailable);
    if (response.statusCode / 100 == 2) co_return answer;
    auto kind =
        response.statusCode == 429 ? ErrorKind::kResourceExhausted : ErrorKind::kUnavailable;
    fail(kind, readHcloudError(response.statusCode, response.statusText, answer, token));
  }

  template <typename Item>
  kj::Promise<kj::Vector<Item>> list(kj::HttpClient& http, kj::StringPtr path,
                                     HcloudPage<Item> (*read)(kj::ArrayPtr<const char>)) {
    kj::Vector<Item> all;
    for (unsigned page = 1; page <= kMostPages;) {
      auto answer = co_await call(http, kj::HttpMethod::GET,
                                  kj::str(path, "?page=", page, "&per_page=", kHcloudPageItems));
      auto got = read(answer);
      for (auto& item : got.items) all.add(kj::mv(item));
      if (got.next == 0) co_return kj::mv(all);
      if (got.next <= page) fail(ErrorKind::kUnavailable, kj::str(path, ": the pages do not end"));
      page = got.next;
    }
    fail(ErrorKind::kUnavailable, kj::str(path, ": there are more than ", kMostPages, " pages"));
  }

  kj::Promise<bool> assignFloatingIp(kj::HttpClient& http) {
    auto path = kj::str("/v1/floating_ips/", place.floatingIp);
    auto now = readHcloudFloatingIp(co_await call(http, kj::HttpMethod::GET, kj::str(path)));
    if (now.server == place.server) co_return false;
    co_await act(http, kj::str(path, "/actions/assign"),
                 kj::str("{\"server\":", place.server, "}"));
    co_return true;
  }

  // Looks before each change, and after the last one: the API replaces a list as a whole, and other
  // addresses, nodes and programs change the same lists.
  kj::Promise<bool> assignAlias(kj::HttpClient& http) {
    for (unsigned made = 0; made < kMostChanges; ++made) {
      auto servers = co_await list<HcloudServer>(http, "/v1/servers", readHcloudServers);
      auto changes = aliasChanges(address, place, servers);
      if (changes.empty()) co_return made > 0;
      auto& change = changes[0];
      auto aliases = KJ_MAP(alias, change.aliases) {
        return alias.toString();
      };
      co_await act(
          http, kj::str("/v1/servers/", change.server, "/actions/change_alias_ips"),
          kj::str("{\"network\":", place.network, ",\"alias_ips\":", jsonList(aliases), "}"));
    }
    fail(ErrorKind::kUnavailable,
         kj::str(address, " is not the alias IP of this server alone after ", kMostChanges,
                 " changes"));
  }

  // Resolves when the API has carried out the change.
  kj::Promise<void> act(kj::HttpClient& http, kj::String path, kj::String body) {
    auto action = readHcloudAction(
        co_await call(http, kj::HttpMethod::POST, kj::str(path), kj::mv(body)), token);
    auto end = deps.dial.timer.now() + kHcloudAction;
    while (action.running) {
      if (deps.dial.timer.now() >= end) {
        fail(ErrorKind::kUnavailable, kj::str(path, ": not done within ", kHcloudAction));
      }
      co_await deps.dial.timer.afterDelay(deps.actionPause);
      action = readHcloudAction(
          co_await call(http, kj::HttpMethod::GET, kj::str("/v1/actions/", action.id)), token);
    }
    if (action.problem.size() > 0) {
      fail(ErrorKind::kUnavailable, kj::str(path, " has failed: ", action.problem));
    }
  }
};

}  // namespace

kj::Own<Provider> hcloudProvider(HcloudDependencies& deps, const Ip& address, kj::String token,
                                 kj::StringPtr host, uint16_t port) {
  return kj::heap<Hcloud>(deps, address, kj::mv(token), host, port);
}

}  // namespace talos::vipd
