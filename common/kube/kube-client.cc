#include "common/kube/kube-client.h"

#include <kj/compat/http.h>
#include <kj/debug.h>

#include "common/base/backoff.h"
#include "common/base/within.h"
#include "common/memory/zeroize.h"
#include "common/net/http-body.h"
#include "common/net/http-header-names.h"

namespace talos::kube {
namespace {

constexpr kj::StringPtr kUserAgent = "talos"_kj;
constexpr size_t kMostErrorBody = 64u << 10;

kj::StringPtr contentTypeOf(Patch how) {
  switch (how) {
    case Patch::kMerge:
      return "application/merge-patch+json";
    case Patch::kStrategic:
      return "application/strategic-merge-patch+json";
    case Patch::kApply:
      return "application/apply-patch+yaml";
  }
  KJ_UNREACHABLE;
}

struct KubeHeaders : public HttpHeaderNames {
  kj::HttpHeaderId accept = add("Accept"), userAgent = add("User-Agent"),
                   authorization = add("Authorization"), retryAfter = add("Retry-After");
};

struct KubeRequest {
  kj::HttpMethod method = kj::HttpMethod::GET;
  kj::String path;
  kj::String doing;  // "get nodes/master-1"
  kj::String body = nullptr;
  kj::StringPtr contentType = "application/json";
  // Takes the lines of an answer without an error, in place of KubeAnswer::body.
  kj::Maybe<kj::Function<void(kj::StringPtr)>&> lines = nullptr;
};

struct KubeAnswer {
  unsigned status;
  kj::String statusText;
  kj::Array<char> body;
  kj::Maybe<kj::Duration> retryAfter;
};

kj::Promise<kj::Array<char>> readAnswer(kj::AsyncInputStream& body, size_t most) {
  return readBody(body, most, kj::str("the answer is larger than ", most >> 10, " KiB"));
}

kj::Promise<void> readLines(kj::AsyncInputStream& stream, kj::Function<void(kj::StringPtr)>& take) {
  LineAssembler assembler(kMostTextLine);
  auto piece = kj::heapArray<char>(65536);
  for (bool more = true; more;) {
    auto size = co_await stream.tryRead(piece.begin(), 1, piece.size());
    more = size > 0;
    // The last line may lack its end.
    auto lines = assembler.add(more ? piece.slice(0, size).asConst() : "\n"_kj.asArray());
    for (auto& line : lines) take(line);
  }
}

kj::String describe(const Resource& resource, kj::StringPtr nameSpace, kj::StringPtr name) {
  return kj::str(resource.plural, name.size() > 0 ? "/" : "", name,
                 resource.namespaced && nameSpace.size() > 0 ? " in " : "",
                 resource.namespaced ? nameSpace : ""_kj);
}

kj::String listPath(const Resource& resource, kj::StringPtr nameSpace, const ListOptions& options,
                    unsigned pageSize = kPageSize) {
  auto path = pathOf(resource, nameSpace);
  addQuery(path, "limit", kj::str(pageSize));
  if (options.labels.size() > 0) addQuery(path, "labelSelector", options.labels);
  if (options.fields.size() > 0) addQuery(path, "fieldSelector", options.fields);
  return path;
}

}  // namespace

KubeWatch::KubeWatch(kj::Timer& timer, kj::Own<kj::AsyncInputStream> body)
    : timer(timer), end(timer.now() + kWatchTime + kCallDeadline), body(kj::mv(body)) {}

kj::Promise<kj::Maybe<WatchEvent>> KubeWatch::next() {
  while (taken == lines.size()) {
    auto size =
        co_await within(timer, end - timer.now(), body->tryRead(piece.begin(), 1, piece.size()),
                        kj::str("the server did not end the watch in time"));
    if (size == 0) co_return nullptr;
    lines = assembler.add(piece.slice(0, size));
    taken = 0;
  }
  co_return readWatchEvent(lines[taken++]);
}

struct KubeClient::Impl {
  kj::Timer& timer;
  kj::Function<double()> random;
  KubeAccess access;
  kj::String name, authority;
  KubeHeaders ids;
  DialedAddress address;
  kj::Own<kj::HttpClient> http;
  kj::TreeMap<kj::String, Json> discovered;  // by apiVersion

  Impl(kj::Timer& timer, kj::Function<double()> random, KubeDial dial, KubeAccess given)
      : timer(timer),
        random(kj::mv(random)),
        access(kj::mv(given)),
        name(kj::str("Kubernetes at ", access.name())),
        authority(access.name()),
        address("Kubernetes", kj::mv(dial)),
        http(kj::newHttpClient(timer, ids.table(), address)) {}

  kj::Exception named(const kj::Exception& e) {
    return error(kindOf(e), kj::str(name, ": ", messageOf(e)));
  }

  kj::Promise<kj::HttpClient::Response> send(const KubeRequest& request) {
    kj::HttpHeaders headers(ids.table());
    headers.set(kj::HttpHeaderId::HOST, authority);
    headers.set(ids.accept, "application/json");
    headers.set(ids.userAgent, kUserAgent);
    auto token = kj::str("Bearer ", kj::StringPtr(access.token));
    KJ_DEFER(zeroize(token.asArray()));
    if (access.certificate.size() == 0) headers.set(ids.authorization, token);
    if (request.body.size() > 0) headers.set(kj::HttpHeaderId::CONTENT_TYPE, request.contentType);
    auto call = http->request(request.method, request.path, headers, request.body.size());
    if (request.body.size() > 0) {
      co_await call.body->write(request.body.begin(), request.body.size());
    }
    call.body = nullptr;
    co_return co_await call.response;
  }

  kj::Promise<KubeAnswer> once(const KubeRequest& request) {
    auto response = co_await send(request);
    bool good = response.statusCode < 400;
    kj::Array<char> body;
    if (good && request.lines != nullptr) {
      co_await readLines(*response.body, KJ_ASSERT_NONNULL(request.lines));
    } else {
      body = co_await readAnswer(*response.body, good ? kMostAnswer : kMostErrorBody);
    }
    auto retry =
        response.headers->get(ids.retryAfter).map([](kj::StringPtr t) { return kj::str(t); });
    kj::Maybe<kj::Duration> after;
    KJ_IF_MAYBE (text, retry) after = readRetryAfter(*text);
    co_return KubeAnswer{response.statusCode, kj::str(response.statusText), kj::mv(body), after};
  }

  // Retries once if the request changes nothing: the kept connection may have been closed.
  kj::Promise<KubeAnswer> onceMore(const KubeRequest& request) {
    return once(request).catch_([&](kj::Exception&& e) -> kj::Promise<KubeAnswer> {
      bool gone = e.getType() == kj::Exception::Type::DISCONNECTED;
      if (gone && request.method == kj::HttpMethod::GET) return once(request);
      return kj::mv(e);
    });
  }

  // Returns how long the server wants the client to wait; nullptr if it has answered.
  kj::Maybe<kj::Duration> pauseAfter(const KubeAnswer& answer, Backoff& backoff) {
    KJ_IF_MAYBE (after, answer.retryAfter) {
      if (answer.status == 429 || answer.status == 503) {
        return kj::max(*after, backoff.next(random()));
      }
    }
    return nullptr;
  }

  kj::Promise<KubeAnswer> insist(const KubeRequest& request) {
    Backoff backoff({.first = 500 * kj::MILLISECONDS,
                     .longest = 10 * kj::SECONDS,
                     .chance0 = 0.5,
                     .chance1 = 1});
    auto end = timer.now() + kCallDeadline;
    for (;;) {
      auto answer = co_await onceMore(request);
      auto pause = pauseAfter(answer, backoff);
      if (pause == nullptr) co_return answer;
      auto wait = KJ_ASSERT_NONNULL(pause);
      if (timer.now() + wait >= end) co_return answer;
      co_await timer.afterDelay(wait);
    }
  }

  kj::Promise<KubeAnswer> answer(KubeRequest request) {
    auto given = kj::heap(kj::mv(request));
    auto& asked = *given;
    return within(timer, kCallDeadline, kj::evalNow([&]() { return insist(asked); }),
                  kj::str("cannot ", asked.doing, ": no answer within ", kCallDeadline))
        .catch_([this](kj::Exception&& e) -> kj::Promise<KubeAnswer> { return named(e); })
        .attach(kj::mv(given));
  }

  [[noreturn]] void refuse(const KubeAnswer& answer, kj::StringPtr doing) {
    kj::throwFatalException(named(errorOf(answer.status, answer.statusText, answer.body, doing)));
  }

  kj::Promise<Json> ask(KubeRequest request) {
    auto doing = kj::str(request.doing);
    auto given = co_await answer(kj::mv(request));
    if (given.status >= 400) refuse(given, doing);
    co_return readJson(given.body, kj::str("the answer of ", name));
  }

  // Returns false if the object does not exist.
  kj::Promise<bool> askGone(KubeRequest request) {
    auto doing = kj::str(request.doing);
    auto given = co_await answer(kj::mv(request));
    if (given.status == 404) co_return false;
    if (given.status >= 400) refuse(given, doing);
    co_return true;
  }

  kj::Promise<kj::String> visitFrom(kj::String path, kj::String doing,
                                    kj::Function<void(const Json&)> take) {
    kj::String next, version;
    unsigned pages = 0;
    size_t count = 0;
    do {
      auto page = kj::str(path);
      if (next.size() > 0) addQuery(page, "continue", next);
      auto answer = co_await ask({.path = kj::mv(page), .doing = kj::str(doing)});
      KJ_DEFER(wipe(answer));  // Secrets are listed, too
      auto items = itemsAt(answer, {"items"});
      for (auto item : items) take(*item);
      count += items.size();
      version = kj::str(textAt(answer, {"metadata", "resourceVersion"}));
      next = kj::str(textAt(answer, {"metadata", "continue"}));
      if (count > kMostListed || ++pages > kMostListed / kPageSize) {
        fail(ErrorKind::kResourceExhausted,
             kj::str(name, ": cannot ", doing, ": there are more than ", kMostListed));
      }
    } while (next.size() > 0);
    co_return kj::mv(version);
  }

  kj::Promise<Listed> listFrom(kj::String path, kj::String doing) {
    Listed result;
    result.version = co_await visitFrom(kj::mv(path), kj::mv(doing),
                                        [&](const Json& item) { result.items.add(item); });
    co_return kj::mv(result);
  }

  // Returns the server's description of a group; nullptr if it does not know the group. Valid until
  // the next call.
  kj::Promise<kj::Maybe<const Json&>> discover(GroupVersion groupVersion) {
    auto path = pathOf(groupVersion);
    auto asked = KubeRequest{.path = kj::mv(path), .doing = kj::str("discover kinds")};
    auto given = co_await answer(kj::mv(asked));
    if (given.status == 404) co_return nullptr;
    if (given.status >= 400) refuse(given, "discover kinds");
    auto key = kj::str(groupVersion.group, "/", groupVersion.version);
    auto& kept =
        discovered.upsert(kj::mv(key), readJson(given.body, kj::str("the answer of ", name)),
                          [](Json& old, Json&& fresh) { old = kj::mv(fresh); });
    co_return kept.value;
  }

  kj::Promise<kj::String> evictionVersion() {
    auto core = readApiVersion("v1");
    KJ_IF_MAYBE (known, discovered.find(kj::str(core.group, "/", core.version))) {
      KJ_IF_MAYBE (version, evictionVersionOf(*known)) co_return kj::mv(*version);
    }
    auto listed = co_await discover(kj::mv(core));
    KJ_IF_MAYBE (kinds, listed) {
      KJ_IF_MAYBE (version, evictionVersionOf(*kinds)) co_return kj::mv(*version);
    }
    fail(ErrorKind::kNotFound, kj::str(name, ": it does not evict pods"));
  }
};

KubeClient::KubeClient(kj::Timer& timer, kj::Function<double()> random, KubeDial dial,
                       KubeAccess access)
    : impl(kj::heap<Impl>(timer, kj::mv(random), kj::mv(dial), kj::mv(access))) {}
KubeClient::~KubeClient() noexcept(false) {}

kj::StringPtr KubeClient::name() const {
  return impl->name;
}

kj::StringPtr KubeClient::server() const {
  return impl->authority;
}

kj::Promise<Json> KubeClient::getJson(kj::StringPtr path) {
  return impl->ask({.path = kj::str(path), .doing = kj::str("get ", path)});
}

kj::Promise<void> KubeClient::visitLines(kj::StringPtr path,
                                         kj::Function<void(kj::StringPtr)> take) {
  auto doing = kj::str("get ", path);
  auto given =
      co_await impl->answer({.path = kj::str(path), .doing = kj::str(doing), .lines = take});
  if (given.status >= 400) impl->refuse(given, doing);
}

kj::Promise<void> KubeClient::check(kj::StringPtr path) {
  auto doing = kj::str("get ", path);
  auto given = co_await impl->answer({.path = kj::str(path), .doing = kj::str(doing)});
  if (given.status < 400) co_return;
  auto failed = failedChecks(given.body);
  if (failed.size() > 0) given.statusText = kj::str(given.statusText, ": ", failed);
  impl->refuse(given, doing);
}

kj::Promise<Json> KubeClient::get(const Resource& resource, kj::StringPtr nameSpace,
                                  kj::StringPtr name) {
  return impl->ask({.path = pathOf(resource, nameSpace, name),
                    .doing = kj::str("get ", describe(resource, nameSpace, name))});
}

kj::Promise<KubeClient::Listed> KubeClient::list(const Resource& resource, kj::StringPtr nameSpace,
                                                 const ListOptions& options) {
  auto path = listPath(resource, nameSpace, options);
  auto doing = kj::str("list ", describe(resource, nameSpace, ""));
  return impl->listFrom(kj::str(path), kj::str(doing))
      .catch_([this, path = kj::mv(path),
               doing = kj::mv(doing)](kj::Exception&& e) mutable -> kj::Promise<Listed> {
        if (kindOf(e) != ErrorKind::kConflict) return kj::mv(e);
        return impl->listFrom(kj::mv(path), kj::mv(doing));
      });
}

kj::Promise<kj::String> KubeClient::visit(const Resource& resource, kj::StringPtr nameSpace,
                                          const ListOptions& options,
                                          kj::Function<void(const Json&)> take) {
  return impl->visitFrom(listPath(resource, nameSpace, options),
                         kj::str("list ", describe(resource, nameSpace, "")), kj::mv(take));
}

kj::Promise<Json> KubeClient::page(const Resource& resource, kj::StringPtr nameSpace,
                                   const ListOptions& options, unsigned size, kj::StringPtr next) {
  auto path = listPath(resource, nameSpace, options, size);
  if (next.size() > 0) addQuery(path, "continue", next);
  return impl->ask(
      {.path = kj::mv(path), .doing = kj::str("list ", describe(resource, nameSpace, ""))});
}

kj::Promise<kj::Maybe<Json>> KubeClient::create(const Resource& resource, kj::StringPtr nameSpace,
                                                const Json& object, kj::StringPtr fieldManager) {
  auto path = pathOf(resource, nameSpace);
  addQuery(path, "fieldManager", fieldManager);
  auto doing =
      kj::str("create ", describe(resource, nameSpace, textAt(object, {"metadata", "name"})));
  auto given = co_await impl->answer({.method = kj::HttpMethod::POST,
                                      .path = kj::mv(path),
                                      .doing = kj::str(doing),
                                      .body = writeJson(object)});
  if (saysAlreadyExists(given.status, given.body)) co_return nullptr;
  if (given.status >= 400) impl->refuse(given, doing);
  co_return readJson(given.body, kj::str("the answer of ", impl->name));
}

kj::Promise<Json> KubeClient::patch(Patch how, const Resource& resource, kj::StringPtr nameSpace,
                                    kj::StringPtr name, const Json& object,
                                    kj::StringPtr fieldManager, kj::StringPtr subresource) {
  auto path = pathOf(resource, nameSpace, name, subresource);
  addQuery(path, "fieldManager", fieldManager);
  if (how == Patch::kApply) addQuery(path, "force", "true");
  return impl->ask({.method = kj::HttpMethod::PATCH,
                    .path = kj::mv(path),
                    .doing = kj::str("patch ", describe(resource, nameSpace, name)),
                    .body = writeJson(object),
                    .contentType = contentTypeOf(how)});
}

kj::Promise<kj::OneOf<Json, kj::Vector<FieldConflict>>> KubeClient::apply(
    const Resource& resource, kj::StringPtr nameSpace, kj::StringPtr name, const Json& object,
    kj::StringPtr fieldManager, ApplyOptions options) {
  auto path = pathOf(resource, nameSpace, name);
  addQuery(path, "fieldManager", fieldManager);
  if (options.force) addQuery(path, "force", "true");
  if (options.dryRun) addQuery(path, "dryRun", "All");
  auto doing = kj::str("apply ", describe(resource, nameSpace, name));
  auto answer = co_await impl->answer({.method = kj::HttpMethod::PATCH,
                                       .path = kj::mv(path),
                                       .doing = kj::str(doing),
                                       .body = writeJson(object),
                                       .contentType = contentTypeOf(Patch::kApply)});
  if (answer.status == 409) {
    auto conflicts = conflictsOf(answer.body);
    if (!conflicts.empty()) co_return kj::mv(conflicts);
  }
  if (answer.status >= 400) impl->refuse(answer, doing);
  co_return readJson(answer.body, kj::str("the answer of ", impl->name));
}

kj::Promise<bool> KubeClient::remove(const Resource& resource, kj::StringPtr nameSpace,
                                     kj::StringPtr name, kj::Maybe<Version> only,
                                     kj::Maybe<kj::Duration> grace) {
  kj::String body;
  Json options{{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  KJ_IF_MAYBE (version, only) {
    auto& must = options["preconditions"];
    must["uid"] = version->uid.cStr();
    if (version->resourceVersion.size() > 0) {
      must["resourceVersion"] = version->resourceVersion.cStr();
    }
  }
  KJ_IF_MAYBE (given, grace) options["gracePeriodSeconds"] = *given / kj::SECONDS;
  if (options.size() > 2) body = writeJson(options);
  return impl->askGone({.method = kj::HttpMethod::DELETE,
                        .path = pathOf(resource, nameSpace, name),
                        .doing = kj::str("delete ", describe(resource, nameSpace, name)),
                        .body = kj::mv(body)});
}

kj::Promise<KubeClient::Eviction> KubeClient::evict(kj::StringPtr nameSpace, kj::StringPtr name,
                                                    kj::StringPtr uid,
                                                    kj::Maybe<kj::Duration> grace) {
  using Outcome = Eviction::Outcome;
  auto pods = coreResource("pods", "Pod");
  auto path = pathOf(pods, nameSpace, name, "eviction");
  auto doing = kj::str("evict ", describe(pods, nameSpace, name));
  auto body = evictionOf(nameSpace, name, uid, grace);
  body["apiVersion"] = (co_await impl->evictionVersion()).cStr();
  auto given = co_await impl->answer({.method = kj::HttpMethod::POST,
                                      .path = kj::mv(path),
                                      .doing = kj::str(doing),
                                      .body = writeJson(body)});
  if (given.status == 404) co_return Eviction{Outcome::kGone, kj::str()};
  if (given.status == 409 || given.status == 429) {
    auto refusal = errorOf(given.status, given.statusText, given.body, doing);
    co_return Eviction{Outcome::kRefused, messageOf(refusal)};
  }
  if (given.status >= 400) impl->refuse(given, doing);
  co_return Eviction{Outcome::kGoing, kj::str()};
}

kj::Promise<kj::Own<KubeWatch>> KubeClient::watch(const Resource& resource, kj::StringPtr nameSpace,
                                                  const ListOptions& options,
                                                  kj::StringPtr fromVersion) {
  auto path = pathOf(resource, nameSpace);
  addQuery(path, "watch", "true");
  addQuery(path, "allowWatchBookmarks", "true");
  addQuery(path, "timeoutSeconds", kj::str(kWatchTime / kj::SECONDS));
  addQuery(path, "resourceVersion", fromVersion);
  if (options.labels.size() > 0) addQuery(path, "labelSelector", options.labels);
  if (options.fields.size() > 0) addQuery(path, "fieldSelector", options.fields);
  KubeRequest request{.path = kj::mv(path),
                      .doing = kj::str("watch ", describe(resource, nameSpace, ""))};
  kj::Maybe<kj::Exception> failure;
  try {
    auto response =
        co_await within(impl->timer, kCallDeadline, impl->send(request),
                        kj::str("cannot ", request.doing, ": no answer within ", kCallDeadline));
    if (response.statusCode < 400) {
      co_return kj::heap<KubeWatch>(impl->timer, kj::mv(response.body));
    }
    auto body =
        co_await within(impl->timer, kCallDeadline, readAnswer(*response.body, kMostErrorBody),
                        kj::str("cannot ", request.doing, ": the answer was cut off"));
    failure = errorOf(response.statusCode, response.statusText, body, request.doing);
  } catch (...) {
    failure = kj::getCaughtExceptionAsKj();
  }
  kj::throwFatalException(impl->named(KJ_ASSERT_NONNULL(failure)));
}

kj::Promise<Resource> KubeClient::resource(kj::StringPtr apiVersion, kj::StringPtr kind) {
  auto groupVersion = readApiVersion(apiVersion);
  auto key = kj::str(groupVersion.group, "/", groupVersion.version);
  KJ_IF_MAYBE (known, impl->discovered.find(key)) {
    KJ_IF_MAYBE (found, resourceOf(*known, groupVersion, kind)) co_return kj::mv(*found);
  }
  auto asked = kj::str(kind), version = kj::str(apiVersion);
  auto listed = co_await impl->discover(readApiVersion(version));
  KJ_IF_MAYBE (kinds, listed) {
    KJ_IF_MAYBE (found, resourceOf(*kinds, readApiVersion(version), asked)) {
      co_return kj::mv(*found);
    }
  }
  fail(ErrorKind::kNotFound, kj::str(impl->name, ": it knows no kind ", asked, " of ", version));
}

}  // namespace talos::kube
