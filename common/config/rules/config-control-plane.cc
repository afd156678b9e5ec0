// Checks the settings of the control plane's components: what its programs read from files, and
// the parts of their pods. A component does not start with a file that it refuses, and the kubelet
// refuses the whole pod for one wrong quantity.
//
// References: audit.k8s.io/v1, apiserver.config.k8s.io and kubescheduler.config.k8s.io in
// Kubernetes' documentation, and the validation of these APIs.

#include <set>
#include <string>

#include "common/config/kubernetes/component-settings.h"
#include "common/config/kubernetes/kubernetes-images.h"
#include "common/config/kubernetes/quantity.h"
#include "common/config/rules/config-check.h"
#include "common/net/text-values.h"
#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

using Pairs = capnp::List<StringPair>::Reader;

constexpr kj::StringPtr kApi = "cluster.apiServer"_kj;
constexpr kj::StringPtr kRemoveOne = "remove one of the two"_kj;

template <typename List>
kj::Maybe<kj::StringPtr> valueIn(List list, kj::StringPtr key) {
  for (auto pair : list) {
    if (pair.getKey() == key) return kj::StringPtr(pair.getValue());
  }
  return nullptr;
}

// Warns that an argument names a file which is read instead of the node's.
void warnOfArgument(Report& report, kj::StringPtr path, Pairs arguments, kj::StringPtr argument) {
  if (valueIn(arguments, argument) == nullptr) return;
  report.warn(path, kj::str("this key has no effect: extraArgs names a file with ", argument),
              kRemoveOne);
}

// --- audit policy

// Returns the mistake in a path of a rule, or nullptr.
kj::Maybe<kj::StringPtr> urlMistake(kj::StringPtr url) {
  if (url == "*") return nullptr;
  if (!url.startsWith("/")) return "it must begin with /, or be *"_kj;
  auto star = url.findFirst('*').orDefault(url.size());
  if (star + 1 < url.size()) return "a * may be at the end only"_kj;
  return nullptr;
}

void checkAuditRule(Report& report, kj::StringPtr path, AuditRule::Reader rule) {
  auto urls = rule.getNonResourceURLs();
  for (auto i : kj::indices(urls)) {
    KJ_IF_MAYBE (mistake, urlMistake(urls[i])) {
      report.laterError(kj::str(path, ".nonResourceURLs[", i, "]"),
                        kj::str(jsonString(urls[i]), " is not a path of a rule"), *mistake);
    }
  }
  if (urls.size() > 0 && (rule.getResources().size() > 0 || rule.getNamespaces().size() > 0)) {
    report.laterError(kj::str(path, ".nonResourceURLs"),
                      kj::str("a rule is either for paths or for resources and namespaces"),
                      "make two rules of it");
  }
  auto kinds = rule.getResources();
  for (auto i : kj::indices(kinds)) {
    auto place = kj::str(path, ".resources[", i, "]");
    auto group = kinds[i].getGroup();
    if (group.size() > 0 && !isDnsName(group)) {
      report.laterError(kj::str(place, ".group"),
                        kj::str(jsonString(group), " is not a valid API group"),
                        "leave out the version, for example apps");
    }
    if (kinds[i].getResourceNames().size() > 0 && kinds[i].getResources().size() == 0) {
      report.laterError(kj::str(place, ".resourceNames"), kj::str("names need resources"),
                        "add the resources that have these names");
    }
  }
}

void checkAuditPolicy(Report& report, ApiServer::Reader api) {
  if (!api.hasAuditPolicy()) return;
  auto path = kj::str(kApi, ".auditPolicy");
  auto policy = api.getAuditPolicy();
  warnOfArgument(report, path, api.getExtraArgs(), kAuditPolicyArgument);
  auto require = [&](kj::StringPtr key, kj::StringPtr given, kj::StringPtr wanted) {
    auto place = kj::str(path, ".", key);
    if (given == wanted) return;
    report.laterError(place, kj::str(jsonString(given), " is not the ", key, " of a policy"),
                      kj::str("use ", wanted));
  };
  require("apiVersion", policy.getApiVersion(), "audit.k8s.io/v1");
  require("kind", policy.getKind(), "Policy");
  auto rules = policy.getRules();
  auto list = kj::str(path, ".rules");
  if (rules.size() == 0) {
    report.laterError(list, kj::str("the policy has no rules"), "for example - level: Metadata");
  }
  for (auto i : kj::indices(rules)) checkAuditRule(report, kj::str(list, "[", i, "]"), rules[i]);
}

// --- admission

void checkPodSecurity(Report& report, kj::StringPtr path, FreeObject::Reader object) {
  constexpr auto kGroup = "pod-security.admission.config.k8s.io/"_kj;
  constexpr auto kKind = "PodSecurityConfiguration"_kj;
  if (!object.getApiVersion().startsWith(kGroup)) {
    report.laterError(
        kj::str(path, ".apiVersion"),
        kj::str(jsonString(object.getApiVersion()), " is not the apiVersion of a ", kKind),
        kj::str("use ", kGroup, "v1"));
  }
  if (object.getKind() != kKind) {
    report.laterError(kj::str(path, ".kind"),
                      kj::str(jsonString(object.getKind()), " is not the kind of this plugin"),
                      kj::str("use ", kKind));
  }
}

void checkAdmission(Report& report, ApiServer::Reader api) {
  auto path = kj::str(kApi, ".admissionControl");
  auto plugins = api.getAdmissionControl();
  if (plugins.size() > 0) warnOfArgument(report, path, api.getExtraArgs(), kAdmissionArgument);
  std::set<std::string> names;
  for (auto i : kj::indices(plugins)) {
    auto item = kj::str(path, "[", i, "]");
    kj::StringPtr name = plugins[i].getName();
    auto place = kj::str(item, ".name");
    if (name.size() == 0) {
      report.laterError(place, kj::str("the plugin has no name"));
    } else if (!names.insert(name.cStr()).second) {
      report.laterError(place, kj::str("there is another configuration of ", jsonString(name)),
                        "merge the two");
    } else if (name.findFirst(',') != nullptr) {
      report.laterError(place, kj::str(jsonString(name), " is not the name of a plugin"),
                        "name each plugin by itself");
    }
    if (name == kPodSecurityPlugin && plugins[i].hasConfiguration()) {
      checkPodSecurity(report, kj::str(item, ".configuration"), plugins[i].getConfiguration());
    }
  }
}

// --- authorization

// Returns the name that an authorizer of this type must have; "" if it may have any.
kj::StringPtr onlyNameOf(AuthorizerType type) {
  switch (type) {
    case AuthorizerType::NODE:
      return "node"_kj;
    case AuthorizerType::RBAC:
      return "rbac"_kj;
    case AuthorizerType::WEBHOOK:
      return ""_kj;
  }
  return ""_kj;
}

void checkAuthorizer(Report& report, kj::StringPtr item, Authorizer::Reader authorizer) {
  if (!report.isRead(kj::str(item, ".type"))) return;
  auto place = kj::str(item, ".name");
  kj::StringPtr name = authorizer.getName();
  auto wanted = onlyNameOf(authorizer.getType());
  bool good = wanted.size() > 0 ? name == wanted : isDnsName(name);
  if (!good) {
    report.laterError(
        place, kj::str(jsonString(name), " is not the name of an authorizer of this type"),
        wanted.size() > 0 ? kj::str("use ", wanted) : kj::str("use letters, digits, - and ."));
  }
  bool isWebhook = authorizer.getType() == AuthorizerType::WEBHOOK;
  bool hasSettings = authorizer.getWebhook().size() > 0;
  if (isWebhook && !hasSettings) {
    report.laterError(kj::str(item, ".webhook"), kj::str("the settings of the webhook are missing"),
                      "for example timeout, failurePolicy and connectionInfo");
  } else if (!isWebhook && hasSettings) {
    report.warn(kj::str(item, ".webhook"), kj::str("only an authorizer of type Webhook has it"),
                "remove it");
  }
}

void checkAuthorization(Report& report, ApiServer::Reader api, KubernetesVersion version) {
  auto path = kj::str(kApi, ".authorizationConfig");
  auto list = api.getAuthorizationConfig();
  if (list.size() == 0) return;
  if (!hasAuthorizationFile(version)) {
    report.laterError(path,
                      kj::str("kube-apiserver of Kubernetes ", version.major, ".", version.minor,
                              " has no list of authorizers"),
                      "use Kubernetes 1.30 or newer, or authorization-mode in extraArgs");
  }
  for (auto argument : api.getExtraArgs()) {
    kj::StringPtr name = argument.getKey();
    if (name == kAuthorizationArgument || name == kAuthorizationModeArgument ||
        name.startsWith("authorization-webhook-")) {
      report.laterError(
          path,
          kj::str("the API server takes either this list or the argument ", name, " of extraArgs"),
          kRemoveOne);
    }
  }
  std::set<std::string> names;
  std::set<AuthorizerType> types;
  for (auto type : {AuthorizerType::NODE, AuthorizerType::RBAC}) {
    bool given = false;
    for (auto authorizer : list) given = given || authorizer.getType() == type;
    // The node puts it in front.
    if (!given && !api.getOnlyGivenAuthorizers()) names.insert(onlyNameOf(type).cStr());
  }
  for (auto i : kj::indices(list)) {
    auto item = kj::str(path, "[", i, "]");
    checkAuthorizer(report, item, list[i]);
    auto type = list[i].getType();
    bool again = !types.insert(type).second && type != AuthorizerType::WEBHOOK;
    if (again) {
      report.laterError(kj::str(item, ".type"), kj::str("there is another authorizer of this type"),
                        "remove one of them");
    } else if (!names.insert(list[i].getName().cStr()).second) {
      report.laterError(kj::str(item, ".name"),
                        kj::str("another authorizer is called ", jsonString(list[i].getName())),
                        "give it another name");
    }
  }
}

// --- authentication

// The first release whose API server reads the field `anonymous` without a feature gate.
constexpr KubernetesVersion kFirstWithAuthenticationFile = {1, 32, 0};

void checkAuthentication(Report& report, ApiServer::Reader api, KubernetesVersion version) {
  auto file = valueIn(api.getExtraArgs(), kAuthenticationArgument).orDefault(nullptr);
  if (file != kAuthenticationFile || version >= kFirstWithAuthenticationFile) return;
  report.laterError(keyPath(kj::str(kApi, ".extraArgs"), kAuthenticationArgument),
                    kj::str("kube-apiserver of Kubernetes ", version.major, ".", version.minor,
                            " does not read all of this configuration"),
                    "use Kubernetes 1.32 or newer");
}

// --- scheduler

void checkScheduler(Report& report, Scheduler::Reader scheduler) {
  constexpr auto kPath = "cluster.scheduler.config"_kj;
  auto config = scheduler.getConfig();
  if (isEmpty(config)) return;
  if (valueIn(scheduler.getExtraArgs(), kSchedulerConfigArgument) != nullptr) {
    report.laterError(
        kPath,
        kj::str(
            "the scheduler takes either this configuration or the argument config of extraArgs"),
        kRemoveOne);
  }
  auto version = config.getApiVersion();
  if (version.size() > 0 && !version.startsWith(kj::str(kSchedulerApiGroup, "/"))) {
    report.laterError(kj::str(kPath, ".apiVersion"),
                      kj::str(jsonString(version), " is not the apiVersion of a ", kSchedulerKind),
                      kj::str("use ", kSchedulerApiGroup, "/v1"));
  }
  if (config.getKind().size() > 0 && config.getKind() != kSchedulerKind) {
    report.laterError(kj::str(kPath, ".kind"),
                      kj::str(jsonString(config.getKind()), " is not the kind of the scheduler's ",
                              "configuration"),
                      kj::str("use ", kSchedulerKind));
  }
  if (valueIn(config.getClientConnection(), "kubeconfig") != nullptr) {
    report.laterError(kj::str(kPath, ".clientConnection.kubeconfig"),
                      kj::str("the node sets this field itself"), "remove it");
  }
}

// --- pods

bool isVariableName(kj::StringPtr name) {
  for (size_t i = 0; i < name.size(); ++i) {
    char c = name[i];
    bool first =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.';
    if (!first && (i == 0 || c < '0' || c > '9')) return false;
  }
  return name.size() > 0 && name != "." && !name.startsWith("..");
}

void checkVariables(Report& report, kj::StringPtr component, Pairs variables) {
  auto path = kj::str(component, ".env");
  for (auto variable : variables) {
    kj::StringPtr name = variable.getKey();
    auto place = keyPath(path, name);
    if (!isVariableName(name)) {
      report.laterError(place, kj::str(jsonString(name), " is not the name of a variable"),
                        "use letters, digits, _, - and ., and no digit at the beginning");
    } else if (component == kApi && name == kPodAddressVariable) {
      report.laterError(place, kj::str("the node sets this variable itself"), "remove it");
    }
  }
}

// Returns the quantity that counts for one resource, 0 without one; reports nothing.
double amountOf(Pairs quantities, kj::StringPtr resource) {
  auto text = valueIn(quantities, resource).orDefault("0"_kj);
  return parseQuantity(text).orDefault(0);
}

void checkQuantities(Report& report, kj::StringPtr path, Pairs quantities) {
  for (auto quantity : quantities) {
    kj::StringPtr name = quantity.getKey();
    auto place = keyPath(path, name);
    if (name != kCpu && name != kMemory) {
      report.laterError(place, kj::str(jsonString(name), " is not a resource of the control plane"),
                        "use cpu or memory");
    } else if (parseQuantity(quantity.getValue()) == nullptr) {
      report.laterError(place, kj::str(jsonString(quantity.getValue()), " is not a quantity"),
                        name == kCpu ? "for example 500m or 2"_kj : "for example 512Mi or 2Gi"_kj);
    }
  }
}

void checkResources(Report& report, kj::StringPtr component, Resources::Reader resources,
                    UsualRequests usual) {
  auto path = kj::str(component, ".resources");
  checkQuantities(report, kj::str(path, ".requests"), resources.getRequests());
  checkQuantities(report, kj::str(path, ".limits"), resources.getLimits());
  struct Row {
    kj::StringPtr name, usual;
  };
  for (auto& row : {Row{kCpu, usual.cpu}, Row{kMemory, usual.memory}}) {
    auto limit = valueIn(resources.getLimits(), row.name).orDefault(nullptr);
    if (limit == nullptr || parseQuantity(limit) == nullptr) continue;
    auto request = valueIn(resources.getRequests(), row.name);
    auto wanted = request == nullptr ? parseQuantity(row.usual).orDefault(0)
                                     : amountOf(resources.getRequests(), row.name);
    if (wanted <= amountOf(resources.getLimits(), row.name)) continue;
    report.laterError(
        kj::str(path, ".limits.", row.name),
        kj::str(jsonString(limit), " is less than the ", request == nullptr ? "usual " : "",
                "request, ", request.orDefault(row.usual)),
        kj::str("use a higher limit, or a lower ", path, ".requests.", row.name));
  }
}

void checkFlannel(Report& report, ClusterNetwork::Reader network) {
  auto path = "cluster.network.cni.flannel.extraArgs"_kj;
  auto arguments = network.getCni().getFlannel().getExtraArgs();
  if (arguments.size() > 0 && network.getCni().getName() != CniName::FLANNEL) {
    report.warn(path, kj::str("this key has no effect: the CNI is not flannel"), "remove it");
  }
  for (auto i : kj::indices(arguments)) {
    if (arguments[i].startsWith("-")) continue;
    report.laterError(kj::str(path, "[", i, "]"),
                      kj::str(jsonString(arguments[i]), " is not an argument of flanneld"),
                      "write it with its dashes, for example --iface=eth1");
  }
}

}  // namespace

void checkComponentSettings(Report& report, Cluster::Reader cluster) {
  auto api = cluster.getApiServer();
  auto version = kubernetesVersionOf(api.getImage());
  auto said = parseKubernetesVersion(cluster.getKubernetesVersion());
  checkAuditPolicy(report, api);
  checkAdmission(report, api);
  auto release = version.orDefault(said.orDefault(kDefaultKubernetes));
  checkAuthorization(report, api, release);
  checkAuthentication(report, api, release);
  checkVariables(report, kApi, api.getEnv());
  checkResources(report, kApi, api.getResources(), kApiServerRequests);
  constexpr auto kManager = "cluster.controllerManager"_kj, kScheduler = "cluster.scheduler"_kj;
  auto manager = cluster.getControllerManager();
  checkVariables(report, kManager, manager.getEnv());
  checkResources(report, kManager, manager.getResources(), kControllerManagerRequests);
  auto scheduler = cluster.getScheduler();
  checkVariables(report, kScheduler, scheduler.getEnv());
  checkResources(report, kScheduler, scheduler.getResources(), kSchedulerRequests);
  checkScheduler(report, scheduler);
  checkFlannel(report, cluster.getNetwork());
}

}  // namespace talos::config
