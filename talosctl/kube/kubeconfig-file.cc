#include "talosctl/kube/kubeconfig-file.h"

#include <kj/map.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/kube/json-yaml.h"
#include "common/memory/zeroize.h"
#include "common/tls/pki.h"
#include "common/user/user-file.h"
#include "talosctl/client/file-lock.h"

namespace talos::talosctl {
namespace {

constexpr mode_t kNewFolder = 0755;  // as kubectl does
constexpr size_t kLargestKubeconfig = 4u << 20;

bool isFolder(kj::StringPtr path) {
  struct stat found;
  return stat(path.cStr(), &found) == 0 && S_ISDIR(found.st_mode);
}

kube::Json onlyDocument(kj::StringPtr text, kj::StringPtr file) {
  auto documents = kube::readYaml(text, file);
  if (documents.empty()) return nullptr;
  if (documents.size() > 1) {
    fail(ErrorKind::kInvalidArgument, kj::str(file, ": a kubeconfig must have one document"));
  }
  return kj::mv(documents[0]);
}

// Returns the first of the names, which colons separate; kubectl ignores empty names.
kj::String firstFile(kj::StringPtr list) {
  size_t begin = 0;
  while (begin < list.size() && list[begin] == ':') ++begin;
  auto rest = list.slice(begin);
  KJ_IF_MAYBE (end, rest.findFirst(':')) return kj::heapString(rest.slice(0, *end));
  return kj::str(rest);
}

// The choices for existing entries, as far as they are known.
class MergeAnswers {
 public:
  kj::Promise<kube::MergeChoice> answer(const kube::MergeKind& kind, kj::StringPtr name) {
    KJ_IF_MAYBE (known, answers.find(keyOf(kind, name))) return *known;
    if (open == nullptr) open = Question{kind, kj::str(name)};
    return kube::MergeChoice::kRename;
  }
  // The first question without an answer.
  struct Question {
    kube::MergeKind kind;
    kj::String name;
  };
  bool isOpen() const { return open != nullptr; }
  kj::Maybe<Question> takeOpen() {
    KJ_DEFER(open = nullptr);
    return kj::mv(open);
  }
  void add(const Question& question, kube::MergeChoice choice) {
    answers.insert(keyOf(question.kind, question.name), choice);
  }

 private:
  kj::HashMap<kj::String, kube::MergeChoice> answers;
  kj::Maybe<Question> open;

  static kj::String keyOf(const kube::MergeKind& kind, kj::StringPtr name) {
    return kj::str(kind.list, " ", name);
  }
};

// Writes the kubeconfig unless a question has no answer. The caller holds the lock.
kj::Promise<StoredKubeconfig> tryStore(const KubeconfigTarget& target,
                                       const kube::ReceivedKubeconfig& received,
                                       MergeAnswers& answers, bool& asks) {
  auto old = tryReadUserFile(target.path, kLargestKubeconfig);
  KJ_DEFER(KJ_IF_MAYBE (document, old) zeroize(document->asArray()));
  if (old != nullptr && !target.merge && !target.force) {
    fail(ErrorKind::kConflict,
         kj::str("kubeconfig file already exists, use --force to overwrite: \"", target.path,
                 "\"; or use --merge"));
  }
  auto text = received.text();
  StoredKubeconfig stored;
  if (target.merge && (old != nullptr || target.contextName.size() > 0)) {
    kube::Json existing;
    KJ_IF_MAYBE (document, old) existing = onlyDocument(*document, target.path);
    kube::MergeOptions options{target.contextName,
                               [&answers](const kube::MergeKind& kind, kj::StringPtr name) {
                                 return answers.answer(kind, name);
                               }};
    auto merged =
        co_await kube::mergeKubeconfig(kj::mv(existing), received.clone(), kj::mv(options));
    KJ_DEFER(kube::wipe(merged.config));
    asks = answers.isOpen();
    if (asks) co_return kj::mv(stored);
    text = pki::Pem(kube::writeYaml(merged.config));
    stored = {kj::mv(merged.renames), kj::mv(merged.replaced)};
  }
  writeUserFile(target.path, kj::StringPtr(text));
  co_return kj::mv(stored);
}

}  // namespace

kj::String kubeconfigPath(kj::StringPtr given, bool merge, kj::Maybe<kj::StringPtr> home,
                          kj::StringPtr list) {
  auto path = kj::str(given);
  if (path.size() == 0 && merge) path = firstFile(list);
  if (path.size() == 0 && merge) {
    KJ_IF_MAYBE (folder, home) return kj::str(*folder, "/.kube/config");
    fail(ErrorKind::kInvalidArgument, "HOME is not set; name the file of the kubeconfig");
  }
  if (path.size() == 0) path = kj::str(".");
  return isFolder(path) ? kj::str(path, path.endsWith("/") ? "" : "/", "kubeconfig") : kj::mv(path);
}

kube::ReceivedKubeconfig throughHost(kube::ReceivedKubeconfig kubeconfig, kj::StringPtr host) {
  kubeconfig.tlsName = kubeconfig.access().tlsName;
  bool ipv6 = host.findFirst(':') != nullptr;
  kubeconfig.server =
      kj::str("https://", ipv6 ? "[" : "", host, ipv6 ? "]" : "", ":", kKubernetesPort);
  return kubeconfig;
}

kj::Promise<bool> renewUserKubeconfig(kj::Timer& timer, kj::StringPtr given,
                                      const kube::ReceivedKubeconfig& fresh) {
  auto path = kj::str(given);
  if (access(path.cStr(), F_OK) != 0) co_return false;
  auto lock = co_await lockUserFile(timer, path);
  auto old = tryReadUserFile(path, kLargestKubeconfig);
  KJ_IF_MAYBE (document, old) {
    KJ_DEFER(zeroize(document->asArray()));
    auto config = onlyDocument(*document, path);
    KJ_DEFER(kube::wipe(config));
    if (config.is_null() || !kube::renewKubeconfig(config, fresh)) co_return false;
    auto text = pki::Pem(kube::writeYaml(config));
    writeUserFile(path, kj::StringPtr(text));
    co_return true;
  }
  co_return false;
}

kj::Promise<StoredKubeconfig> storeKubeconfig(
    kj::Timer& timer, KubeconfigTarget target, kube::ReceivedKubeconfig received,
    kj::Function<kj::Promise<kube::MergeChoice>(const kube::MergeKind&, kj::StringPtr)> decide) {
  makeUserFolders(target.path, kNewFolder);
  MergeAnswers answers;
  for (;;) {
    bool asks = false;
    {
      auto lock = co_await lockUserFile(timer, target.path);
      auto stored = co_await tryStore(target, received, answers, asks);
      if (!asks) co_return kj::mv(stored);
    }
    auto question = KJ_ASSERT_NONNULL(answers.takeOpen());
    answers.add(question, co_await decide(question.kind, question.name));
  }
}

}  // namespace talos::talosctl
