#include "machined/config/config-fetch.h"

#include <kj/compat/gzip.h>
#include <kj/compat/http.h>
#include <kj/debug.h>
#include <string.h>
#include <strings.h>

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/base/secret-buffer.h"

namespace talos::machined {
namespace {

constexpr Backoff::Pace kFetchPace = {1 * kj::SECONDS, 64 * kj::SECONDS};
constexpr auto kOneTry = 10 * kj::SECONDS;
constexpr auto kOneAddress = 3 * kj::SECONDS;  // of several; the last one has what is left
constexpr unsigned kMostRedirects = 5;

// What is known of a try while it runs: for the message when its time is up.
struct Try {
  kj::String doing;
  kj::Maybe<HttpSource> movedTo;
  size_t received = 0;
};

[[noreturn]] void fail(kj::StringPtr why) {
  talos::fail(ErrorKind::kUnavailable, why);
}

bool isRedirect(unsigned status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// A failed system call is told in KJ's words: "::read(fd, …): Connection reset by peer".
kj::String reasonOf(const kj::Exception& e, const Try& state) {
  auto text = messageOf(e);
  if (!text.startsWith("::") && !text.startsWith("connect")) return text;
  auto* reason = strstr(text.cStr(), "): ");
  return reason == nullptr ? kj::mv(text) : kj::str(state.doing, ": ", reason + 3);
}

class Fetcher {
 public:
  explicit Fetcher(FetchDependencies& deps) : deps(deps) {
    kj::HttpHeaderTable::Builder builder;
    accept = builder.add("Accept");
    userAgent = builder.add("User-Agent");
    table = builder.build();
  }

  // One try, redirects and all.
  kj::Promise<kj::Array<char>> once(const HttpSource& source, Try& state) {
    auto* at = &source;
    for (unsigned redirects = 0;; ++redirects) {
      auto answer = co_await ask(*at, state);
      KJ_IF_MAYBE (body, answer.body) {
        auto text = unpack(kj::mv(*body));
        KJ_ON_SCOPE_FAILURE(zeroize(text));
        requireText(text);
        co_return kj::mv(text);
      }
      if (redirects == kMostRedirects) {
        fail(kj::str("redirected more than ", kMostRedirects, " times"));
      }
      state.movedTo = redirected(*at, answer.location);
      at = &KJ_ASSERT_NONNULL(state.movedTo);
    }
  }

 private:
  FetchDependencies& deps;
  kj::Own<kj::HttpHeaderTable> table;
  kj::HttpHeaderId accept, userAgent;

  struct Answer {
    kj::Maybe<kj::Array<char>> body;
    kj::String location;  // when there is no body
  };

  kj::Promise<kj::Own<kj::AsyncIoStream>> connectTo(kj::StringPtr address, uint16_t port) {
    bool six = address.findFirst(':') != nullptr;
    auto text = six ? kj::str("[", address, "]") : kj::str(address);
    auto there = co_await deps.network.parseAddress(text, port);
    co_return co_await there->connect();
  }

  // The first address that takes the connection; the last one's reason when none does.
  kj::Promise<kj::Own<kj::AsyncIoStream>> connect(const HttpSource& at, Try& state) {
    state.doing = kj::str("looking up \"", at.host, "\"");
    auto addresses = co_await deps.resolve(at.host);
    kj::Maybe<kj::Own<kj::AsyncIoStream>> stream;
    kj::Vector<kj::String> refused;
    for (size_t i = 0; i < addresses.size() && stream == nullptr; ++i) {
      state.doing = kj::str("connecting to ", addresses[i], " port ", at.port);
      auto attempt = connectTo(addresses[i], at.port);
      if (i + 1 < addresses.size()) {
        attempt = deps.timer.timeoutAfter(kOneAddress, kj::mv(attempt));
      }
      co_await attempt.then([&stream](kj::Own<kj::AsyncIoStream> s) { stream = kj::mv(s); })
          .catch_([&refused, &state](kj::Exception&& e) {
            bool late = e.getType() == kj::Exception::Type::OVERLOADED;
            refused.add(late ? kj::str(state.doing, ": no answer") : reasonOf(e, state));
          });
    }
    KJ_IF_MAYBE (s, stream) co_return kj::mv(*s);
    fail(kj::strArray(refused, "; "));
  }

  kj::Promise<kj::Own<kj::AsyncIoStream>> secure(kj::Own<kj::AsyncIoStream> stream,
                                                 const HttpSource& at, Try& state) {
    state.doing = kj::str("waiting for the TLS handshake");
    auto* verifier = co_await deps.verifier();
    auto up = verifier->connect(kj::mv(stream), at.host);
    // The clock of a machine without a config is whatever its battery kept.
    co_return co_await up.catch_([this](kj::Exception&& e) -> kj::Own<kj::AsyncIoStream> {
      auto why = messageOf(e);
      bool ofTime = strstr(why.cStr(), "expired") != nullptr ||
                    strstr(why.cStr(), "not yet valid") != nullptr;
      auto seconds = (deps.clock.now() - kj::UNIX_EPOCH) / kj::SECONDS;
      fail(ofTime ? kj::str(why, " (the clock of this node is at ", seconds, " s since 1970)")
                  : kj::mv(why));
    });
  }

  kj::Promise<Answer> ask(const HttpSource& at, Try& state) {
    auto stream = co_await connect(at, state);
    if (at.secure) stream = co_await secure(kj::mv(stream), at, state);
    auto client = kj::newHttpClient(*table, *stream);
    kj::HttpHeaders headers(*table);
    headers.set(kj::HttpHeaderId::HOST, at.authority);
    headers.set(accept, "*/*");
    headers.set(userAgent, "machined");
    state.doing = kj::str("waiting for the answer");
    auto request = client->request(kj::HttpMethod::GET, at.target, headers, uint64_t(0));
    auto response = co_await request.response;
    if (isRedirect(response.statusCode)) {
      Answer answer;
      answer.location =
          kj::str(KJ_UNWRAP_OR(response.headers->get(kj::HttpHeaderId::LOCATION),
                               fail(kj::str("the server answered ", response.statusCode, " ",
                                            response.statusText, " without a location"))));
      co_return kj::mv(answer);
    }
    if (response.statusCode != 200) {
      fail(kj::str("the server answered ", response.statusCode, " ", response.statusText));
    }
    Answer answer;
    answer.body = co_await readBody(*response.body, state);
    co_return kj::mv(answer);
  }

  static kj::Promise<kj::Array<char>> readBody(kj::AsyncInputStream& body, Try& state) {
    state.doing = kj::str("reading the answer");
    auto told = body.tryGetLength();
    SecretBuffer content;
    char piece[16384];
    KJ_DEFER(zeroize(kj::arrayPtr(piece, sizeof piece)));
    for (;;) {
      auto read = kj::evalNow([&]() { return body.tryRead(piece, 1, sizeof(piece)); });
      auto size = co_await read.catch_([&](kj::Exception&& e) -> size_t {
        auto of = told == nullptr ? kj::String() : kj::str(" of ", KJ_ASSERT_NONNULL(told));
        fail(kj::str("the answer was cut off after ", content.size(), of, " bytes"));
      });
      if (size == 0) break;
      content.add(kj::arrayPtr(piece, size));
      state.received = content.size();
      if (content.size() > kMostConfigBytes) {
        fail(kj::str("the answer is larger than ", kMostConfigBytes >> 20, " MiB"));
      }
    }
    co_return content.copy();
  }
};

}  // namespace

kj::Array<char> unpack(kj::Array<char> body) {
  if (body.size() < 2 || body[0] != '\x1f' || body[1] != '\x8b') return body;
  KJ_DEFER(zeroize(body));
  kj::ArrayInputStream packed(body.asBytes());
  SecretBuffer plain;
  auto broken = kj::runCatchingExceptions([&]() {
    kj::GzipInputStream stream(packed);
    char piece[16384];
    KJ_DEFER(zeroize(kj::arrayPtr(piece, sizeof piece)));
    while (size_t size = stream.tryRead(piece, 1, sizeof(piece))) {
      plain.add(kj::arrayPtr(piece, size));
      KJ_REQUIRE(plain.size() <= kMostConfigBytes, "too large");
    }
  });
  KJ_IF_MAYBE (e, broken) {
    talos::fail(ErrorKind::kInvalidArgument,
                kj::str("cannot unpack the gzip data to at most 4 MiB: ", messageOf(*e)));
  }
  return plain.copy();
}

void requireText(kj::ArrayPtr<const char> body) {
  auto refuse = [](kj::StringPtr what) {
    talos::fail(ErrorKind::kInvalidArgument, kj::str("the server sent ", what, ", not a config"));
  };
  size_t start = body.size() >= 3 && memcmp(body.begin(), "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
  while (start < body.size() && strchr(" \t\r\n", body[start]) != nullptr && body[start] != 0) {
    ++start;
  }
  if (start == body.size()) refuse("empty");
  if (body[start] == '<') refuse("a web page (it begins with \"<\")");
  // UTF-16 is YAML too, and has its mark or a NUL in its first two bytes.
  bool wide = body.size() >= 2 && ((body[0] == '\xff' && body[1] == '\xfe') ||
                                   (body[0] == '\xfe' && body[1] == '\xff'));
  if (!wide && memchr(body.begin(), 0, body.size()) != nullptr) refuse("binary data");
}

kj::Promise<kj::Array<char>> fetchConfig(FetchDependencies& deps, HttpSource source,
                                         kj::Duration limit) {
  auto deadline = deps.timer.now() + limit;
  Fetcher fetcher(deps);
  kj::String last;
  Backoff backoff(kFetchPace);
  for (;;) {
    kj::Maybe<kj::Exception> failure;
    kj::Maybe<kj::Array<char>> body;
    Try state;
    auto patience = kj::min(kOneTry, deadline - deps.timer.now());
    auto late = deps.timer.afterDelay(patience).then([&state, patience]() {
      auto got =
          state.received == 0 ? kj::String() : kj::str(", ", state.received, " bytes received");
      talos::fail(ErrorKind::kDeadlineExceeded,
                  kj::str("timed out after ", patience / kj::SECONDS, " s: ", state.doing, got));
    });
    co_await fetcher.once(source, state)
        .then([&body](kj::Array<char> b) { body = kj::mv(b); })
        .exclusiveJoin(kj::mv(late))
        .catch_([&failure](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (bytes, body) co_return kj::mv(*bytes);
    auto why = reasonOf(KJ_ASSERT_NONNULL(failure), state);
    KJ_IF_MAYBE (moved, state.movedTo) why = kj::str(moved->shown, ": ", why);
    auto line = kj::str("retrying error: ", source.shown, ": ", why);
    if (line != deps.said) {
      deps.say(line);
      deps.said = kj::mv(line);
    }
    last = kj::mv(why);
    // 0, 1, 3, 7 ... 63 s, and up to a second by chance.
    auto pause = backoff.next() - kFetchPace.first +
                 static_cast<int64_t>(deps.random() * 1e9) * kj::NANOSECONDS;
    if (deps.timer.now() + pause >= deadline) break;
    co_await deps.timer.afterDelay(pause);
  }
  talos::fail(ErrorKind::kUnavailable,
              kj::str("cannot fetch the machine config from ", source.shown, " within ",
                      limit / kj::SECONDS, " s: ", last));
}

}  // namespace talos::machined
