#include "machined/kubernetes/static-pods.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/base/control-plane-users.h"
#include "common/config/kubernetes/component-settings.h"
#include "common/config/kubernetes/quantity.h"
#include "common/kube/json-yaml.h"

namespace talos::machined {
namespace {

using kube::Json;
using Arguments = capnp::List<config::StringPair>::Reader;
using Volumes = capnp::List<rpc::ExtraVolume>::Reader;
using ApiServer = rpc::ControlPlaneConfigSpec::ApiServer;

constexpr kj::StringPtr kAdmissionPlugins[] = {
    "NamespaceLifecycle"_kj,
    "LimitRanger"_kj,
    "ServiceAccount"_kj,
    "PersistentVolumeClaimResize"_kj,
    "DefaultStorageClass"_kj,
    "DefaultTolerationSeconds"_kj,
    "MutatingAdmissionWebhook"_kj,
    "ValidatingAdmissionWebhook"_kj,
    "ResourceQuota"_kj,
    "Priority"_kj,
    "NodeRestriction"_kj,
};
constexpr kj::StringPtr kPodSecurityPolicy = "PodSecurityPolicy"_kj;

constexpr kj::StringPtr kCiphers[] = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"_kj, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"_kj,
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305"_kj,  "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"_kj,
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"_kj,    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"_kj,
};
constexpr kj::StringPtr kCiphersWithoutForwardSecrecy[] = {
    "TLS_RSA_WITH_AES_256_GCM_SHA384"_kj,
    "TLS_RSA_WITH_AES_128_GCM_SHA256"_kj,
};

struct Ports {
  int plain, tls;
};
constexpr Ports kControllerManagerHealth = {10252, 10257}, kSchedulerHealth = {10251, 10259};
constexpr int kProbeSeconds = 15;
constexpr kj::StringPtr kEnablePlugins = "enable-admission-plugins"_kj,
                        kDisablePlugins = "disable-admission-plugins"_kj;
// The runtime of Go keeps the memory that it manages below this limit, in bytes.
constexpr kj::StringPtr kMemoryVariable = "GOMEMLIMIT"_kj;
constexpr double kManagedMemory = 0.95;  // part of the limit of the container

std::string std_(kj::StringPtr text) {
  return std::string(text.begin(), text.size());
}

kj::String joined(kj::ArrayPtr<const kj::StringPtr> list, kj::ArrayPtr<const kj::StringPtr> more) {
  kj::Vector<kj::StringPtr> all;
  for (auto text : list) all.add(text);
  for (auto text : more) all.add(text);
  return kj::strArray(all, ",");
}

// The arguments of a program, in the order in which they are added.
class ArgumentList {
 public:
  void add(kj::StringPtr key, kj::StringPtr value) { list.add(Item{kj::str(key), kj::str(value)}); }
  // Merges arguments of the config: they replace built-in ones of the same name, or follow them.
  void merge(Arguments extra) {
    kj::Vector<Item> more;
    for (auto argument : extra) {
      bool replaced = false;
      for (auto& item : list) {
        if (item.key == argument.getKey()) {
          item.value = kj::str(argument.getValue());
          replaced = true;
        }
      }
      if (!replaced) more.add(Item{kj::str(argument.getKey()), kj::str(argument.getValue())});
    }
    std::sort(more.begin(), more.end(), [](const Item& a, const Item& b) { return a.key < b.key; });
    for (auto& item : more) list.add(kj::mv(item));
  }
  // Replaces the value of an argument that the list has.
  void replace(kj::StringPtr key, kj::StringPtr value) {
    for (auto& item : list) {
      if (item.key == key) item.value = kj::str(value);
    }
  }
  Json command(kj::StringPtr program) const {
    auto words = Json::array();
    words.push_back("/go-runner");
    words.push_back(std_(kj::str("/usr/local/bin/", program)));
    for (auto& item : list) words.push_back(std_(kj::str("--", item.key, "=", item.value)));
    return words;
  }

 private:
  struct Item {
    kj::String key, value;
  };
  kj::Vector<Item> list;
};

// The fields of one pod, beside the common ones.
struct PodParts {
  Component component;
  kj::StringPtr image;
  Volumes volumes;
  Arguments variables;
  rpc::ComponentResources::Reader resources;
  config::UsualRequests usual;  // requests that `resources` does not have
  ArgumentList arguments;
  Json environment = Json::array();  // before `variables`
  Json probe = nullptr;
  bool writesAuditLog = false;
  // The program's file in its image has the capability, and could not be executed without it.
  bool mayBindLowPorts = false;
};

kj::String folderOf(Component component) {
  return kj::str(kKubernetesSecretsFolder, "/", nameOf(component));
}

Json mountOf(kj::StringPtr name, kj::StringPtr path, bool readOnly) {
  Json mount;
  mount["mountPath"] = std_(path);
  mount["name"] = std_(name);
  if (readOnly) mount["readOnly"] = true;
  return mount;
}

Json volumeOf(kj::StringPtr name, kj::StringPtr path) {
  Json volume;
  volume["hostPath"]["path"] = std_(path);
  volume["name"] = std_(name);
  return volume;
}

kj::Maybe<kj::StringPtr> valueIn(Arguments list, kj::StringPtr key) {
  for (auto pair : list) {
    if (pair.getKey() == key) return kj::StringPtr(pair.getValue());
  }
  return nullptr;
}

Json variableOf(kj::StringPtr name, kj::StringPtr value) {
  Json variable;
  variable["name"] = std_(name);
  // Kubernetes replaces $(NAME), and reads $$ as $.
  std::string text;
  for (char c : value) text += c == '$' ? "$$" : std::string(1, c);
  variable["value"] = text;
  return variable;
}

Json environmentOf(const PodParts& parts) {
  auto environment = parts.environment;
  KJ_IF_MAYBE (limit, valueIn(parts.resources.getLimits(), config::kMemory)) {
    auto bytes = config::parseQuantity(*limit).orDefault(0) * kManagedMemory;
    if (bytes >= 1 && bytes < 1e18 && valueIn(parts.variables, kMemoryVariable) == nullptr) {
      auto text = kj::str(static_cast<uint64_t>(std::floor(bytes)));
      environment.push_back(variableOf(kMemoryVariable, text));
    }
  }
  for (auto variable : parts.variables) {
    environment.push_back(variableOf(variable.getKey(), variable.getValue()));
  }
  return environment;
}

Json resourcesOf(const PodParts& parts) {
  Json resources;
  for (auto limit : parts.resources.getLimits()) {
    resources["limits"][std_(limit.getKey())] = std_(limit.getValue());
  }
  auto& requests = resources["requests"];
  requests[std_(config::kCpu)] = std_(parts.usual.cpu);
  requests[std_(config::kMemory)] = std_(parts.usual.memory);
  for (auto request : parts.resources.getRequests()) {
    requests[std_(request.getKey())] = std_(request.getValue());
  }
  return resources;
}

// Where the API server's audit log goes.
enum class AuditLog {
  kFolder,  // the node's folder, which is mounted
  kVolume,  // the same path, in a volume of the config
  kOutput,  // the output of the container: a volume covers the path, or cannot be written
};
AuditLog auditLogOf(Volumes volumes) {
  for (auto volume : volumes) {
    kj::StringPtr path = volume.getMountPath();
    size_t size = path.size();
    while (size > 0 && path[size - 1] == '/') --size;
    if (size > kAuditLogs.size() || kAuditLogs.slice(0, size) != path.slice(0, size)) continue;
    if (size == kAuditLogs.size())
      return volume.getReadonly() ? AuditLog::kOutput : AuditLog::kVolume;
    if (kAuditLogs[size] == '/') return AuditLog::kOutput;
  }
  return AuditLog::kFolder;
}

bool mountsAuditLogs(const PodParts& parts) {
  return parts.writesAuditLog && auditLogOf(parts.volumes) == AuditLog::kFolder;
}

Json containerOf(const PodParts& parts) {
  Json container;
  container["command"] = parts.arguments.command(nameOf(parts.component));
  auto environment = environmentOf(parts);
  if (!environment.empty()) container["env"] = environment;
  container["image"] = std_(parts.image);
  if (!parts.probe.is_null()) container["livenessProbe"] = parts.probe;
  container["name"] = std_(nameOf(parts.component));
  container["resources"] = resourcesOf(parts);
  auto& security = container["securityContext"];
  if (!parts.mayBindLowPorts) security["allowPrivilegeEscalation"] = false;
  if (parts.mayBindLowPorts) {
    security["capabilities"]["add"] = Json::array({"NET_BIND_SERVICE"});
  }
  security["capabilities"]["drop"] = Json::array({"ALL"});
  security["seccompProfile"]["type"] = "RuntimeDefault";
  auto folder = folderOf(parts.component);
  auto mounts = Json::array({mountOf("secrets", folder, true)});
  if (mountsAuditLogs(parts)) mounts.push_back(mountOf("audit", kAuditLogs, false));
  for (auto volume : parts.volumes) {
    mounts.push_back(mountOf(volume.getName(), volume.getMountPath(), volume.getReadonly()));
  }
  container["volumeMounts"] = mounts;
  return container;
}

// Renders a pod with keys in alphabetical order, as Kubernetes' own tools print them.
kj::String podOf(const PodParts& parts, const PodContext& context) {
  auto name = std_(nameOf(parts.component));
  Json pod;
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  auto& metadata = pod["metadata"];
  metadata["annotations"]["talos.dev/config-version"] = std_(kj::str(context.configVersion));
  metadata["annotations"]["talos.dev/secrets-version"] = std_(context.secretsVersion);
  metadata["creationTimestamp"] = nullptr;
  metadata["labels"]["k8s-app"] = name;
  metadata["labels"]["tier"] = "control-plane";
  metadata["name"] = name;
  metadata["namespace"] = "kube-system";
  auto& spec = pod["spec"];
  spec["containers"] = Json::array({containerOf(parts)});
  spec["hostNetwork"] = true;
  spec["priorityClassName"] = "system-cluster-critical";
  spec["securityContext"]["runAsGroup"] = uidOf(parts.component);
  spec["securityContext"]["runAsNonRoot"] = true;
  spec["securityContext"]["runAsUser"] = uidOf(parts.component);
  auto volumes = Json::array({volumeOf("secrets", folderOf(parts.component))});
  if (mountsAuditLogs(parts)) volumes.push_back(volumeOf("audit", kAuditLogs));
  for (auto volume : parts.volumes) {
    volumes.push_back(volumeOf(volume.getName(), volume.getHostPath()));
  }
  spec["volumes"] = volumes;
  return kube::writeYaml(pod, 4);
}

Json probeOf(const Ports& ports, KubernetesVersion version) {
  bool plain = has(version, KubeFact::kPlainHealthPorts);
  Json probe;
  if (!plain) probe["httpGet"]["host"] = "127.0.0.1";
  probe["httpGet"]["path"] = "/healthz";
  probe["httpGet"]["port"] = plain ? ports.plain : ports.tls;
  if (!plain) probe["httpGet"]["scheme"] = "HTTPS";
  probe["initialDelaySeconds"] = kProbeSeconds;
  probe["timeoutSeconds"] = kProbeSeconds;
  return probe;
}

// Adds a TLS port for health and metrics on this node, for clients that the API server authorizes.
void addSecurePort(ArgumentList& arguments, kj::StringPtr folder, KubernetesVersion version) {
  if (has(version, KubeFact::kPlainHealthPorts)) return;
  arguments.add("authentication-kubeconfig", kj::str(folder, "/kubeconfig"));
  // The component starts beside the API server, and must not exit because the server is not up yet.
  arguments.add("authentication-tolerate-lookup-failure", "true");
  arguments.add("authorization-kubeconfig", kj::str(folder, "/kubeconfig"));
  arguments.add("bind-address", "127.0.0.1");
}

void addCloudProvider(ArgumentList& arguments, kj::StringPtr provider, KubernetesVersion version) {
  if (provider.size() == 0 && !has(version, KubeFact::kEmptyCloudProvider)) return;
  arguments.add("cloud-provider", provider);
}

// Adds the authorizers: those of the file, or else the modes. A file contains the modes, and the
// API server refuses both together.
void addAuthorization(ArgumentList& arguments, ApiServer::Reader spec, kj::StringPtr file) {
  if (valueIn(spec.getExtraArgs(), config::kAuthorizationArgument) != nullptr) return;
  if (spec.getAuthorizationConfig().size() > 0) {
    return arguments.add(config::kAuthorizationArgument, file);
  }
  arguments.add(config::kAuthorizationModeArgument, "Node,RBAC");
}

void addAudit(ArgumentList& arguments, kj::StringPtr policy, Volumes volumes) {
  bool toOutput = auditLogOf(volumes) == AuditLog::kOutput;
  arguments.add(config::kAuditPolicyArgument, policy);
  arguments.add("audit-log-path",
                toOutput ? kj::str("-") : kj::str(kAuditLogs, "/kube-apiserver.log"));
  arguments.add("audit-log-maxage", "30");
  arguments.add("audit-log-maxbackup", "10");
  arguments.add("audit-log-maxsize", "100");
}

bool isInList(kj::StringPtr list, kj::StringPtr name) {
  return std_(kj::str(",", list, ",")).find(std_(kj::str(",", name, ","))) != std::string::npos;
}

// Returns the list of plugins with those that the config configures, unless it disables them.
kj::String withConfigured(kj::StringPtr list, ApiServer::Reader spec) {
  auto disabled = valueIn(spec.getExtraArgs(), kDisablePlugins).orDefault(""_kj);
  auto all = kj::str(list);
  for (kj::StringPtr plugin : spec.getAdmissionPlugins()) {
    if (isInList(all, plugin) || isInList(disabled, plugin)) continue;
    all = kj::str(all, all.size() > 0 ? "," : "", plugin);
  }
  return all;
}

void addShutdown(ArgumentList& list, KubernetesVersion version) {
  // The API server keeps serving for this time after the signal to exit, while /readyz reports it:
  // clients and the shared address move to another server meanwhile.
  list.add("shutdown-delay-duration", "3s");
  // Without this setting a stopping API server waits for its watches until the kubelet kills it,
  // after 30 s.
  if (has(version, KubeFact::kApiServerEndsWatches)) {
    list.add("shutdown-watch-termination-grace-period", "5s");
  }
}

// Returns the arguments one by one, in the order of the documents.
ArgumentList apiServerArguments(ApiServer::Reader spec, const PodContext& context) {
  auto version = context.version;
  auto folder = folderOf(Component::kApiServer);
  auto file = [&](kj::StringPtr name) { return kj::str(folder, "/", name); };
  bool policies =
      context.podSecurityPolicy && has(version, KubeFact::kAdmissionOfPodSecurityPolicy);
  auto first = kj::arr(kPodSecurityPolicy);
  bool old = has(version, KubeFact::kCiphersWithoutForwardSecrecy);
  ArgumentList list;
  list.add(kEnablePlugins,
           withConfigured(joined(policies ? first.asPtr() : nullptr, kAdmissionPlugins), spec));
  list.add("advertise-address", "$(POD_IP)");
  list.add("allow-privileged", "true");
  list.add("api-audiences", spec.getControlPlaneEndpoint());
  addAuthorization(list, spec, file(kAuthorizationFile));
  // Listens on both families if the cluster's first one is IPv6.
  auto services = spec.getServiceCIDR();
  auto comma = services.findFirst(',').orDefault(services.size());
  bool v6 = services.findFirst(':').orDefault(services.size()) < comma;
  list.add("bind-address", v6 ? "::" : "0.0.0.0");
  list.add("client-ca-file", file("ca.crt"));
  list.add("requestheader-client-ca-file", file("aggregator-ca.crt"));
  list.add("requestheader-allowed-names", "front-proxy-client");
  list.add("requestheader-extra-headers-prefix", "X-Remote-Extra-");
  list.add("requestheader-group-headers", "X-Remote-Group");
  list.add("requestheader-username-headers", "X-Remote-User");
  list.add("proxy-client-cert-file", file("front-proxy-client.crt"));
  list.add("proxy-client-key-file", file("front-proxy-client.key"));
  if (has(version, KubeFact::kApiServerCloudProvider))
    addCloudProvider(list, spec.getCloudProvider(), version);
  list.add("enable-bootstrap-token-auth", "true");
  list.add("tls-cipher-suites",
           joined(kCiphers, old ? kj::ArrayPtr<const kj::StringPtr>(kCiphersWithoutForwardSecrecy)
                                : nullptr));
  list.add("encryption-provider-config", file("encryptionconfig.yaml"));
  if (spec.getAdmissionControl().size() > 0)
    list.add(config::kAdmissionArgument, file(kAdmissionFile));
  addAudit(list, file(kAuditPolicyFile), spec.getExtraVolumes());
  list.add("profiling", "false");
  list.add("etcd-cafile", file("etcd-client-ca.crt"));
  list.add("etcd-certfile", file("etcd-client.crt"));
  list.add("etcd-keyfile", file("etcd-client.key"));
  list.add("etcd-servers", kj::strArray(spec.getEtcdServers(), ","));
  if (has(version, KubeFact::kInsecurePort)) list.add("insecure-port", "0");
  addShutdown(list, version);
  list.add("kubelet-client-certificate", file("apiserver-kubelet-client.crt"));
  list.add("kubelet-client-key", file("apiserver-kubelet-client.key"));
  list.add("secure-port", kj::str(spec.getLocalPort()));
  list.add("service-account-issuer", spec.getControlPlaneEndpoint());
  list.add("service-account-key-file", file("service-account.pub"));
  list.add("service-account-signing-key-file", file("service-account.key"));
  list.add("service-cluster-ip-range", spec.getServiceCIDR());
  list.add("tls-cert-file", file("apiserver.crt"));
  list.add("tls-private-key-file", file("apiserver.key"));
  list.add("kubelet-preferred-address-types", "InternalIP,ExternalIP,Hostname");
  list.merge(spec.getExtraArgs());
  KJ_IF_MAYBE (plugins, valueIn(spec.getExtraArgs(), kEnablePlugins)) {
    list.replace(kEnablePlugins, withConfigured(*plugins, spec));
  }
  return list;
}

ArgumentList controllerManagerArguments(rpc::ControlPlaneConfigSpec::ControllerManager::Reader spec,
                                        KubernetesVersion version) {
  auto folder = folderOf(Component::kControllerManager);
  auto file = [&](kj::StringPtr name) { return kj::str(folder, "/", name); };
  ArgumentList list;
  list.add("allocate-node-cidrs", "true");
  addCloudProvider(list, spec.getCloudProvider(), version);
  list.add("cluster-cidr", spec.getPodCIDR());
  list.add("service-cluster-ip-range", spec.getServiceCIDR());
  list.add("cluster-signing-cert-file", file("ca.crt"));
  list.add("cluster-signing-key-file", file("ca.key"));
  list.add("configure-cloud-routes", "false");
  list.add("kubeconfig", file("kubeconfig"));
  list.add("leader-elect", "true");
  list.add("root-ca-file", file("ca.crt"));
  list.add("service-account-private-key-file", file("service-account.key"));
  list.add("profiling", "false");
  // The controller manager's own identity has few rights; each controller has an identity with the
  // rights that it needs.
  list.add("use-service-account-credentials", "true");
  // Each controller requests its identity when it starts: with the default of 20 requests a second
  // the last one starts 4 s after the first.
  list.add("kube-api-qps", "100");
  list.add("kube-api-burst", "200");
  addSecurePort(list, folder, version);
  list.merge(spec.getExtraArgs());
  return list;
}

ArgumentList schedulerArguments(rpc::ControlPlaneConfigSpec::Scheduler::Reader spec,
                                KubernetesVersion version) {
  auto folder = folderOf(Component::kScheduler);
  ArgumentList list;
  if (spec.getConfig().size() > 0) {
    // The file has the rest: the program ignores the arguments, or lets them replace the user's.
    list.add(config::kSchedulerConfigArgument, kj::str(folder, "/", kSchedulerConfigFile));
  } else {
    list.add("kubeconfig", kj::str(folder, "/kubeconfig"));
    list.add("leader-elect", "true");
    list.add("profiling", "false");
  }
  addSecurePort(list, folder, version);
  list.merge(spec.getExtraArgs());
  return list;
}

Json podAddress() {
  Json variable;
  variable["name"] = std_(config::kPodAddressVariable);
  variable["valueFrom"]["fieldRef"]["fieldPath"] = "status.podIP";
  return Json::array({variable});
}

}  // namespace

kj::String staticPod(rpc::ControlPlaneConfigSpec::ApiServer::Reader spec,
                     const PodContext& context) {
  return podOf({.component = Component::kApiServer,
                .image = spec.getImage(),
                .volumes = spec.getExtraVolumes(),
                .variables = spec.getEnvironmentVariables(),
                .resources = spec.getResources(),
                .usual = config::kApiServerRequests,
                .arguments = apiServerArguments(spec, context),
                .environment = podAddress(),
                .writesAuditLog = true,
                .mayBindLowPorts = true},
               context);
}

kj::String staticPod(rpc::ControlPlaneConfigSpec::ControllerManager::Reader spec,
                     const PodContext& context) {
  return podOf({.component = Component::kControllerManager,
                .image = spec.getImage(),
                .volumes = spec.getExtraVolumes(),
                .variables = spec.getEnvironmentVariables(),
                .resources = spec.getResources(),
                .usual = config::kControllerManagerRequests,
                .arguments = controllerManagerArguments(spec, context.version),
                .probe = probeOf(kControllerManagerHealth, context.version)},
               context);
}

kj::String staticPod(rpc::ControlPlaneConfigSpec::Scheduler::Reader spec,
                     const PodContext& context) {
  return podOf({.component = Component::kScheduler,
                .image = spec.getImage(),
                .volumes = spec.getExtraVolumes(),
                .variables = spec.getEnvironmentVariables(),
                .resources = spec.getResources(),
                .usual = config::kSchedulerRequests,
                .arguments = schedulerArguments(spec, context.version),
                .probe = probeOf(kSchedulerHealth, context.version)},
               context);
}

}  // namespace talos::machined
