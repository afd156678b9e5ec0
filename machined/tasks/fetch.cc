#include "machined/tasks/fetch.h"

#include <arpa/inet.h>
#include <kj/compat/gzip.h>
#include <kj/compat/http.h>
#include <kj/compat/url.h>
#include <kj/debug.h>

#include "common/error.h"

namespace talos::machined {
namespace {

constexpr auto kOneTry = 10 * kj::SECONDS;

bool isNumeric(kj::StringPtr host) {
  struct in6_addr any;
  return inet_pton(AF_INET, host.cStr(), &any) == 1 || inet_pton(AF_INET6, host.cStr(), &any) == 1;
}

[[noreturn]] void refuse(kj::StringPtr url, kj::StringPtr why) {
  fail(ErrorKind::kInvalidArgument,
       kj::str("kernel parameter talos.config=", url, ": ", why,
               "; right is http://<address>[:<port>]/<path>, or none"));
}

// "a:80", "[::1]:80", "a", "[::1]" -> host and port.
void splitAuthority(kj::StringPtr url, kj::StringPtr authority, ConfigSource& out) {
  kj::StringPtr rest = authority;
  if (authority.startsWith("[")) {
    size_t close = KJ_UNWRAP_OR(authority.findFirst(']'), refuse(url, "a \"]\" is missing"));
    out.host = kj::str(authority.slice(1, close));
    rest = authority.slice(close + 1);
  } else {
    size_t colon = authority.findLast(':').orDefault(authority.size());
    out.host = kj::str(authority.slice(0, colon));
    rest = authority.slice(colon);
  }
  if (rest.size() > 0) {
    auto port = rest.startsWith(":") ? rest.slice(1).tryParseAs<uint16_t>() : nullptr;
    out.port = KJ_UNWRAP_OR(port, refuse(url, "the port is not a number from 1 to 65535"));
    if (out.port == 0) refuse(url, "the port is not a number from 1 to 65535");
  }
  if (!isNumeric(out.host))
    refuse(url, kj::str("\"", out.host,
                        "\" is not an IP address, and no names are resolved this early"));
}

kj::Promise<kj::Array<char>> fetchOnce(kj::Network& network, const kj::HttpHeaderTable& table,
                                       const ConfigSource& source) {
  bool six = source.host.findFirst(':') != nullptr;
  auto address = co_await network.parseAddress(
      six ? kj::str("[", source.host, "]") : kj::str(source.host), source.port);
  auto stream = co_await address->connect();
  auto client = kj::newHttpClient(table, *stream);
  kj::HttpHeaders headers(table);
  headers.set(kj::HttpHeaderId::HOST, source.authority);
  auto request = client->request(kj::HttpMethod::GET, source.target, headers, uint64_t(0));
  auto response = co_await request.response;
  if (response.statusCode != 200) {
    fail(ErrorKind::kUnavailable,
         kj::str("the server answered ", response.statusCode, " ", response.statusText));
  }
  auto bytes = co_await response.body->readAllBytes(kMostConfigBytes);
  if (bytes.size() == 0) fail(ErrorKind::kUnavailable, "the server answered with nothing");
  co_return kj::heapArray(bytes.asChars());
}

}  // namespace

kj::Maybe<ConfigSource> configSource(const KernelArguments& arguments, kj::StringPtr uuid) {
  auto text = arguments.first("talos.config").orDefault("");
  if (text == nullptr || text == "none") return nullptr;
  if (text == "metal-iso") {
    refuse(text, "reading a config from a volume needs disks, which this version does not have");
  }
  KJ_IF_MAYBE (url, kj::Url::tryParse(text, kj::Url::HTTP_PROXY_REQUEST)) {
    if (url->scheme != "http")
      refuse(text, kj::str("the scheme \"", url->scheme, "\" is not supported"));
    ConfigSource source;
    splitAuthority(text, url->host, source);
    source.authority = kj::str(url->host);
    for (auto& q : url->query) {
      if (q.name == "uuid" && q.value == nullptr) q.value = kj::str(uuid);
    }
    source.target = url->toString(kj::Url::HTTP_REQUEST);
    url->query.clear();
    source.shown = url->toString(kj::Url::HTTP_PROXY_REQUEST);
    return kj::mv(source);
  }
  refuse(text, "this is not a URL");
}

kj::Array<char> unpack(kj::Array<char> body) {
  if (body.size() < 2 || body[0] != '\x1f' || body[1] != '\x8b') return body;
  kj::ArrayInputStream packed(body.asBytes());
  kj::Array<kj::byte> plain;
  auto broken = kj::runCatchingExceptions([&]() {
    kj::GzipInputStream stream(packed);
    plain = stream.readAllBytes(kMostConfigBytes);
  });
  KJ_IF_MAYBE (e, broken) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the config looks like gzip but cannot be unpacked to at most 4 MiB: ",
                 messageOf(*e)));
  }
  return kj::heapArray(plain.asChars());
}

kj::Promise<kj::Array<char>> fetchConfig(FetchWorld& world, ConfigSource source,
                                         kj::Duration limit) {
  auto deadline = world.timer.now() + limit;
  kj::HttpHeaderTable table;
  kj::String last;
  for (unsigned n = 0;; n++) {
    kj::Maybe<kj::Exception> failure;
    auto patience = kj::min(kOneTry, deadline - world.timer.now());
    auto body = co_await fetchOnce(world.network, table, source)
                    .then([](kj::Array<char> b) -> kj::Maybe<kj::Array<char>> { return kj::mv(b); })
                    .exclusiveJoin(world.timer.afterDelay(patience).then(
                        [patience]() -> kj::Maybe<kj::Array<char>> {
                          fail(ErrorKind::kDeadlineExceeded,
                               kj::str("no answer within ", patience / kj::SECONDS, " s"));
                        }))
                    .catch_([&failure](kj::Exception&& e) -> kj::Maybe<kj::Array<char>> {
                      failure = kj::mv(e);
                      return nullptr;
                    });
    KJ_IF_MAYBE (bytes, body) co_return unpack(kj::mv(*bytes));
    auto why = messageOf(KJ_ASSERT_NONNULL(failure));
    if (why != last) world.say(kj::str("retrying error: ", source.shown, ": ", why));
    last = kj::mv(why);
    auto pause = ((1u << kj::min(n, 6u)) - 1) * kj::SECONDS +
                 static_cast<int64_t>(world.random() * 1e9) * kj::NANOSECONDS;
    if (world.timer.now() + pause >= deadline) break;
    co_await world.timer.afterDelay(pause);
  }
  fail(ErrorKind::kUnavailable, kj::str("the machine config cannot be fetched from ", source.shown,
                                        " within ", limit / kj::SECONDS, " s: ", last));
}

}  // namespace talos::machined
