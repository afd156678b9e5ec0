// link: common-kube
// A kubeconfig of a hostile node, and a user's kubeconfig that it is merged into: the result has
// the keys that a node may set, and everything that the user had.
#include <kj/async.h>
#include <kj/debug.h>

#include "common/kube/json-yaml.h"
#include "common/kube/kubeconfig-merge.h"
#include "common/text/plain-text.h"
#include "tests/fuzz/fuzz-target.h"

namespace {

using namespace talos;
using namespace talos::kube;

// Not an exception, which would count as a refusal.
void must(bool holds) {
  if (!holds) __builtin_trap();
}

void mustHaveOnly(const Json& object, std::initializer_list<kj::StringPtr> keys) {
  must(object.is_object());
  for (auto& member : object.items()) {
    bool known = false;
    for (auto key : keys) known = known || key == toPtr(member.key());
    must(known);
  }
}

const Json& only(const Json& document, kj::StringPtr list, kj::StringPtr content) {
  auto items = itemsAt(document, {list});
  must(items.size() == 1);
  mustHaveOnly(*items[0], {"name", content});
  must(isPlainText(textAt(*items[0], {"name"})));
  return KJ_ASSERT_NONNULL(find(*items[0], {content}));
}

void mustBeHarmless(const Json& document) {
  mustHaveOnly(document,
               {"apiVersion", "kind", "clusters", "users", "contexts", "current-context"});
  mustHaveOnly(only(document, "clusters", "cluster"), {"server", "certificate-authority-data"});
  mustHaveOnly(only(document, "users", "user"), {"client-certificate-data", "client-key-data"});
  mustHaveOnly(only(document, "contexts", "context"), {"cluster", "user", "namespace"});
}

ReceivedKubeconfig usual() {
  return {.cluster = kj::str("c"),
          .user = kj::str("admin@c"),
          .context = kj::str("admin@c"),
          .nameSpace = kj::str("default"),
          .server = kj::str("https://10.5.0.1:6443"),
          .tlsName = {},
          .authority = kj::str("CA"),
          .certificate = kj::str("CERT"),
          .key = pki::Pem(kj::str("KEY"))};
}

// Checks that all earlier entries still exist, unchanged and before the new ones.
void mustKeep(const Json& before, const Json& after) {
  for (auto list : {"clusters", "users", "contexts"}) {
    auto had = itemsAt(before, {list}), has = itemsAt(after, {list});
    must(has.size() >= had.size() && has.size() <= had.size() + 1);
    for (auto i : kj::indices(had)) must(*had[i] == *has[i]);
  }
}

void mergeInto(Json existing, ReceivedKubeconfig added, kj::WaitScope& scope) {
  auto before = existing;
  MergeOptions options{
      "", [](auto&, auto) -> kj::Promise<MergeChoice> { return MergeChoice::kRename; }};
  auto merged = mergeKubeconfig(kj::mv(existing), kj::mv(added), kj::mv(options)).wait(scope);
  mustKeep(before, merged.config);
  auto text = writeYaml(merged.config);
  must(readYaml(text, "merged").size() == 1);
}

}  // namespace

FUZZ_TARGET(kubeconfig) {
  auto text = kj::heapString(reinterpret_cast<const char*>(data), size);
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  (void)kj::runCatchingExceptions([&]() {
    auto received = readReceivedKubeconfig(text, "f");
    auto written = received.text();
    mustBeHarmless(readYaml(kj::StringPtr(written), "written")[0]);
    auto again = readReceivedKubeconfig(written, "f");
    must(kj::StringPtr(again.text()) == kj::StringPtr(written));
    must(received.access().host.size() > 0);
    static const Json kUsual = kj::mv(readYaml(kj::StringPtr(usual().text()), "f")[0]);
    mergeInto(kUsual, kj::mv(again), scope);
  });
  (void)kj::runCatchingExceptions([&]() {
    auto documents = readYaml(text, "f");
    if (documents.size() == 1) mergeInto(kj::mv(documents[0]), usual(), scope);
  });
  return 0;
}
