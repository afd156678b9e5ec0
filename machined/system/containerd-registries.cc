#include "machined/system/containerd-registries.h"

#include <fcntl.h>
#include <linux/capability.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/base/node-layout.h"
#include "common/kernel/process-capabilities.h"
#include "common/memory/zeroize.h"
#include "common/text/foreign-text.h"
#include "machined/system/system-tree.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kDocker = "docker.io"_kj, kDockerHost = "registry-1.docker.io"_kj,
                        kPlugin = "plugins.\"io.containerd.grpc.v1.cri\""_kj,
                        kBaseSpec = "conf.d/base-spec.json"_kj,
                        kNotice = "# Made from machine.registries of the machine config.\n"_kj;

constexpr size_t kMostConfig = 64u << 20;

// Returns a basic string of TOML 1.0, whose escapes are those of JSON.
kj::String tomlString(kj::StringPtr text) {
  return jsonString(text);
}

// Returns containerd's name for the folder of a host: host:port is host_port_.
kj::String folderOf(kj::StringPtr host) {
  KJ_IF_MAYBE (colon, host.findLast(':')) {
    bool inBrackets = host.slice(*colon).findFirst(']') != nullptr;
    if (!inBrackets) return kj::str(host.slice(0, *colon), "_", host.slice(*colon + 1), "_");
  }
  return kj::str(host);
}

// Returns the host that serves the images of a registry.
kj::StringPtr defaultHost(kj::StringPtr registry) {
  return registry == kDocker ? kDockerHost : registry;
}
kj::StringPtr registryOf(kj::StringPtr host) {
  return host == kDockerHost ? kDocker : host;
}

struct Url {
  kj::String text;  // without slashes at its end
  kj::String host;  // host[:port]
  bool secure;
  bool hasPath;
};
Url parseUrl(kj::StringPtr url) {
  size_t size = url.size();
  size_t begin = 0;
  for (size_t i = 0; i + 3 <= size; ++i) {
    if (url.slice(i).startsWith("://")) {
      begin = i + 3;
      break;
    }
  }
  while (size > begin && url[size - 1] == '/') --size;
  auto text = kj::heapString(url.slice(0, size));
  auto rest = text.slice(begin);
  size_t slash = rest.findFirst('/').orDefault(rest.size());
  auto host = kj::heapString(rest.slice(0, slash));
  KJ_IF_MAYBE (at, host.findLast('@')) host = kj::str(host.slice(*at + 1));
  bool secure = !text.startsWith("http://"), hasPath = slash < rest.size();
  return Url{kj::mv(text), kj::mv(host), secure, hasPath};
}

class Renderer {
 public:
  Renderer(config::Registries::Reader registries, kj::StringPtr folder, OomScores scores,
           kj::StringPtr baseSpec, CachePlace cache)
      : registries(registries), folder(folder), scores(scores), baseSpec(baseSpec), cache(cache) {}

  kj::Vector<RegistryFile> render() {
    for (auto entry : registries.getConfig()) addTls(entry.getKey(), entry.getValue().getTls());
    std::set<std::string> names;  // sorted: the same config yields the same files
    for (auto mirror : registries.getMirrors()) names.insert(mirror.getKey().cStr());
    for (auto entry : registries.getConfig()) {
      if (entry.getValue().hasTls()) names.insert(registryOf(entry.getKey()).cStr());
    }
    if (cache == CachePlace::kHere) names.insert("*");
    for (auto& name : names) {
      if (name == "*") {
        addHosts("_default", nullptr, endpointsOf("*"));
      } else {
        addHosts(folderOf(name.c_str()), kj::StringPtr(name.c_str()), endpointsFor(name.c_str()));
      }
    }
    if (baseSpec.size() > 0) files.add(kj::str(kBaseSpec), kj::str(baseSpec));
    addPlugin();
    return kj::mv(files);
  }

 private:
  config::Registries::Reader registries;
  kj::StringPtr folder;
  OomScores scores;
  kj::StringPtr baseSpec;
  CachePlace cache;
  kj::Vector<RegistryFile> files;

  using Endpoints = kj::Maybe<config::Registries::Endpoints::Reader>;

  Endpoints endpointsOf(kj::StringPtr name) {
    for (auto mirror : registries.getMirrors()) {
      if (mirror.getKey() == name) return mirror.getValue();
    }
    return nullptr;
  }
  // A registry's file hides the file of all others, so it repeats its mirrors.
  Endpoints endpointsFor(kj::StringPtr name) {
    auto exact = endpointsOf(name);
    return exact == nullptr ? endpointsOf("*") : exact;
  }

  // Returns the config of a host; docker.io stands for the host that really answers.
  kj::Maybe<config::Registries::RegistryEntry::Reader> entryOf(kj::StringPtr host) {
    kj::Maybe<config::Registries::RegistryEntry::Reader> found;
    for (auto entry : registries.getConfig()) {
      if (entry.getKey() == host) return entry;
      if (entry.getKey() == kDocker && host == kDockerHost) found = entry;
    }
    return found;
  }

  // Certificate and key are in one file, so that they always belong together.
  void addTls(kj::StringPtr host, config::RegistryTls::Reader tls) {
    if (tls.getCa().size() > 0)
      files.add(tlsPath(host, "ca.pem"), kj::heapString(tls.getCa().asChars()));
    if (!tls.hasClientIdentity()) return;
    auto identity = tls.getClientIdentity();
    files.add(tlsPath(host, "client.pem"),
              kj::str(identity.getCrt().asChars(), "\n", identity.getKey().asChars()));
  }
  static kj::String tlsPath(kj::StringPtr host, kj::StringPtr name) {
    return kj::str("tls/", folderOf(host), "/", name);
  }

  // Returns lines of hosts.toml for one host, with `of` before their keys.
  kj::String tlsLines(kj::StringPtr host, kj::StringPtr of = "") {
    auto lines = kj::str();
    KJ_IF_MAYBE (entry, entryOf(host)) {
      auto tls = entry->getValue().getTls();
      auto add = [&](kj::StringPtr key, kj::StringPtr file) {
        auto path = kj::str(folder, "/", tlsPath(entry->getKey(), file));
        lines = kj::str(lines, of, key, " = ", tomlString(path), "\n");
      };
      if (tls.getCa().size() > 0) add("ca", "ca.pem");
      if (tls.hasClientIdentity()) add("client", "client.pem");
      if (tls.getInsecureSkipVerify()) lines = kj::str(lines, of, "skip_verify = true\n");
    }
    return lines;
  }

  // After the endpoints containerd uses the server, which is the registry itself, or the last
  // endpoint if there is to be no fallback. It does not accept a file without any
  // host, so the registry has one too. The hosts are dotted keys: containerd's reader takes the
  // bracket of an IPv6 address for the end of a table's name, in quotes too.
  void addHosts(kj::StringPtr name, kj::Maybe<kj::StringPtr> registry, Endpoints endpoints) {
    std::set<std::string> added;
    auto hosts = kj::str(), top = kj::str();
    auto add = [&](kj::StringPtr endpoint, bool asItIs) {
      auto url = parseUrl(endpoint);
      if (!added.insert(url.text.cStr()).second) return;
      auto of = kj::str(tomlString(url.text), ".");
      hosts = kj::str(hosts, of, "capabilities = [\"pull\", \"resolve\"]\n",
                      url.hasPath || asItIs ? kj::str(of, "override_path = true\n") : kj::str(),
                      url.secure ? tlsLines(url.host, of) : kj::str());
    };
    bool only = false;
    if (cache == CachePlace::kHere) add(kj::str("http://127.0.0.1:", kRegistrydPort), false);
    KJ_IF_MAYBE (e, endpoints) {
      for (auto endpoint : e->getEndpoints()) {
        add(endpoint, e->getOverridePath());
        auto url = parseUrl(endpoint);
        only = e->getSkipFallback();
        if (!only) continue;
        top = kj::str("server = ", tomlString(url.text), "\n",
                      url.hasPath || e->getOverridePath() ? "override_path = true\n" : "",
                      url.secure ? tlsLines(url.host) : kj::str());
      }
    }
    if (only) registry = nullptr;
    KJ_IF_MAYBE (r, registry) {
      auto host = defaultHost(*r);
      top = tlsLines(host);
      if (top.size() > 0 || added.empty()) {
        auto url = kj::str("https://", host);
        top = kj::str("server = ", tomlString(url), "\n", top);
        add(url, false);
      }
    }
    if (added.empty()) return;
    files.add(kj::str("certs.d/", name, "/hosts.toml"), kj::str(kNotice, top, "\n[host]\n", hosts));
  }

  // Returns the credentials that containerd prefers, with `of` before their keys.
  static kj::String authLines(config::RegistryAuth::Reader auth, kj::StringPtr of) {
    auto line = [&](kj::StringPtr key, kj::StringPtr value) {
      return kj::str(of, key, " = ", tomlString(value), "\n");
    };
    if (auth.getUsername().size() > 0)
      return kj::str(line("username", auth.getUsername()), line("password", auth.getPassword()));
    if (auth.getIdentityToken().size() > 0) return line("identitytoken", auth.getIdentityToken());
    return auth.getAuth().size() > 0 ? line("auth", auth.getAuth()) : kj::str();
  }

  // A table of the runtime replaces containerd's own, so it names its type.
  kj::String runtimeLines() {
    if (baseSpec.size() == 0) return kj::String();
    return kj::str("\n[", kPlugin, ".containerd.runtimes.runc]\nruntime_type = ",
                   "\"io.containerd.runc.v2\"\nbase_runtime_spec = ",
                   tomlString(kj::str(folder, "/", kBaseSpec)), "\n");
  }

  void addPlugin() {
    auto text = kj::str(
        kNotice, "version = 2\n\n[", kPlugin, "]\nsandbox_image = ", tomlString(kPauseImage), "\n",
        scores == OomScores::kAny ? "" : "restrict_oom_score_adj = true\n", "\n[", kPlugin,
        ".cni]\nbin_dir = \"/opt/cni/bin\"\nconf_dir = \"/etc/cni/net.d\"\n\n[", kPlugin,
        ".registry]\nconfig_path = ", tomlString(kj::str(folder, "/certs.d")), "\n",
        runtimeLines());
    bool any = false;
    for (auto entry : registries.getConfig()) {
      auto host = defaultHost(entry.getKey());
      auto lines = authLines(entry.getValue().getAuth(), kj::str(tomlString(host), ".auth."));
      if (lines.size() == 0) continue;
      KJ_DEFER(zeroize(lines));
      if (host != entry.getKey() &&
          entryOf(host).map([](auto e) { return kj::str(e.getKey()); }).orDefault(kj::str()) ==
              host)
        continue;  // written for the host that really answers
      auto before = kj::mv(text);
      auto table = any ? kj::str() : kj::str("\n[", kPlugin, ".registry.configs]\n");
      text = kj::str(before, table, lines);
      any = true;
      zeroize(before);
    }
    files.add(kj::str("conf.d/10-registries.toml"), kj::mv(text));
  }
};

}  // namespace

RegistryFile::~RegistryFile() noexcept(false) {
  zeroize(content);
}

OomScores ownOomScores() {
  return process1May(CAP_SYS_RESOURCE) ? OomScores::kAny : OomScores::kNotLower;
}

kj::Vector<RegistryFile> registryFiles(config::Registries::Reader registries, kj::StringPtr folder,
                                       OomScores scores, kj::StringPtr baseSpec, CachePlace cache) {
  return Renderer(registries, folder, scores, baseSpec, cache).render();
}

kj::Vector<kj::String> containerdParts(config::Machine::Reader machine) {
  kj::Vector<kj::String> parts;
  for (auto file : machine.getFiles()) {
    if (file.getPath() == kContainerdPart) parts.add(kj::str(file.getContent()));
  }
  return parts;
}

kj::StringPtr systemPart(kj::ArrayPtr<const RegistryFile> files) {
  return files[files.size() - 1].content;
}

void addContainerdParts(kj::Vector<RegistryFile>& files, kj::ArrayPtr<const kj::String> parts,
                        kj::Maybe<kj::String> merged) {
  auto last = kj::mv(files.back());
  files.removeLast();
  files.add(kj::str("conf.d/20-customization.part"), kj::strArray(parts, "\n"));
  KJ_IF_MAYBE (text, merged) files.add(kj::str("conf.d/cri.toml"), kj::mv(*text));
  files.add(kj::mv(last));
}

void writeRegistryFiles(kj::StringPtr folder, kj::ArrayPtr<const RegistryFile> files) {
  namespace fs = std::filesystem;
  makeDirectories(folder, 0755);
  auto tree = openTree(folder);
  std::set<std::string> wanted;
  for (auto& file : files) {
    auto parts = split(file.path);
    auto directory = makeDirectoriesIn(tree, parts.directory, 0755);
    wanted.insert(file.path.cStr());
    auto there = tryOpen(directory, parts.name, O_RDONLY, Links::kNone);
    KJ_IF_MAYBE (fd, there) {
      auto content = readAll(*fd, kMostConfig);
      KJ_DEFER(zeroize(content));
      if (content == file.content.asArray()) continue;
    }
    replaceFile(directory, parts.name, file.content.asArray(), FileAttributes{});
  }
  // The files of an earlier config are removed; a directory goes when it is empty.
  std::vector<fs::path> found;
  for (auto& entry : fs::recursive_directory_iterator(folder.cStr())) found.push_back(entry.path());
  for (auto path = found.rbegin(); path != found.rend(); ++path) {
    if (wanted.count(path->lexically_relative(folder.cStr())) > 0) continue;
    if (!fs::is_directory(fs::symlink_status(*path)) || fs::is_empty(*path)) fs::remove(*path);
  }
}

}  // namespace talos::machined
