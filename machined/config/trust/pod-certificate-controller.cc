// secrets.PodCertificateController: signs certificates of the machine API for pods. kubed, which
// speaks to Kubernetes, has no key of the CA: it writes a PodCertificateRequest, and the answer is
// the PodCertificate of the same ID, as long as the request exists.
//
// The policy is in the config (machine.features.kubernetesTalosAPIAccess) and is applied whatever
// kubed has checked: a compromised kubed gets only roles that pods may have, and only names of pods
// (common/wire/pod-client-name.h). Each certificate is a line of the log `audit`. A request is
// answered once, and the answer survives restarts of the brain.
#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/wire/audit.h"
#include "common/wire/pod-client-name.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/trust/client-certificate.h"
#include "machined/config/trust/trust-config.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/access-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr uint64_t kPodCertificateS = 6 * 3600;

// Returns the reason why the config does not allow the request; nullptr if it does.
kj::Maybe<kj::String> policyError(config::PodApiAccess::Reader policy,
                                  rpc::PodCertificateRequestSpec::Reader request) {
  if (!policy.getEnabled()) return kj::str("the access of pods to the machine API is not enabled");
  kj::StringPtr in = request.getKubernetesNamespace();
  bool known = false;
  for (auto one : policy.getAllowedKubernetesNamespaces()) known = known || one == in;
  if (!known) {
    return kj::str("pods of the namespace ", in, " are not allowed to access the machine API");
  }
  for (auto role : request.getRoles()) {
    bool allowed = false;
    for (auto one : policy.getAllowedRoles()) allowed = allowed || roleName(one) == role;
    if (!allowed) return kj::str("pods are not allowed to have the role ", role);
  }
  return nullptr;
}

// Returns "apps/sa" without the namespace; nullptr if the account is in another namespace.
kj::Maybe<kj::String> nameIn(kj::StringPtr nameSpace, kj::StringPtr account) {
  auto prefix = kj::str(nameSpace, "/");
  if (!account.startsWith(prefix) || account.size() == prefix.size()) return nullptr;
  return kj::str(account.slice(prefix.size()));
}

struct Job {
  Job(kj::StringPtr id, uint64_t number) : id(kj::str(id)), number(number) {}
  kj::String id;
  uint64_t number;  // number of the request
  kj::String authority, trusted, request, account, client;
  pki::Pem key;
  kj::Vector<kj::String> roles;
  kj::String error;  // empty if it is to be signed
  kj::String certificate;
};

void sign(Job& job, kj::Date now) {
  auto failure = kj::runCatchingExceptions([&] {
    job.certificate = signClientCertificate(job.authority, job.key, job.request.asArray(),
                                            job.roles, kPodCertificateS, now, job.client);
  });
  KJ_IF_MAYBE (e, failure) job.error = messageOf(*e);
}

class PodCertificateController final : public Controller {
 public:
  explicit PodCertificateController(ControllerDependencies& deps)
      : uv(deps.uv), clock(deps.clock), config(deps.config), audit(deps.audit) {}

  kj::StringPtr name() const override { return "secrets.PodCertificateController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId),
                   input<rpc::PodCertificateRequestSpec>());
  }
  kj::Array<kj::StringPtr> outputs() const override { return typeNames<rpc::PodCertificateSpec>(); }

  kj::Promise<void> reconcile(Store& store) override {
    auto jobs = due(store);
    if (!jobs.empty()) {
      jobs = co_await uv.blocking([jobs = kj::mv(jobs), now = clock.now()]() mutable {
        for (auto& job : jobs) {
          if (job.error.size() == 0) sign(job, now);
        }
        return kj::mv(jobs);
      });
    }
    publish(store, jobs);
  }

 private:
  UvLoop& uv;
  const kj::Clock& clock;
  MachineConfigReader& config;
  kj::Function<void(kj::StringPtr, kj::StringPtr)>& audit;

  void record(const Job& job) {
    capnp::MallocMessageBuilder message;
    auto issued = message.initRoot<rpc::PodCertificateRequestSpec>();
    issued.setAccount(job.account);
    fillTexts(issued.initRoles(static_cast<unsigned>(job.roles.size())), job.roles);
    audit("kubed", describeCall("PodCertificate.sign", issued.asReader()));
  }

  static bool isAnswered(Store& store, kj::StringPtr id, uint64_t number) {
    KJ_IF_MAYBE (answer, store.tryGet<rpc::PodCertificateSpec>(id)) {
      return answer->getNumber() == number;
    }
    return false;
  }

  kj::Vector<Job> due(Store& store) {
    kj::Vector<Job> jobs;
    for (auto request : store.list<rpc::PodCertificateRequestSpec>()) {
      if (isAnswered(store, request.id(), request.getNumber())) continue;
      auto& job = jobs.add(request.id(), request.getNumber());
      auto found = config.tryConfig(store);
      KJ_IF_MAYBE (c, found) {
        auto machine = c->getMachine();
        auto error = policyError(machine.getFeatures().getKubernetesTalosAPIAccess(), request);
        KJ_IF_MAYBE (name, nameIn(request.getKubernetesNamespace(), request.getAccount())) {
          job.client = podClientName(request.getKubernetesNamespace(), *name);
        }
        KJ_IF_MAYBE (e, error) {
          job.error = kj::mv(*e);
        } else if (job.client.size() == 0) {
          job.error = kj::str("the account \"", request.getAccount(),
                              "\" is not one of the namespace ", request.getKubernetesNamespace());
        } else if (!hasKey(machine.getCa())) {
          job.error = kj::str("this node does not have the key of the CA");
        }
        job.authority = kj::heapString(machine.getCa().getCrt().asChars());
        job.trusted = apiAuthorities(*c).trusted;
        job.key = pki::Pem(kj::heapString(machine.getCa().getKey().asChars()));
      } else {
        job.error = kj::str("this node has no config");
      }
      job.request = kj::str(request.getRequest());
      job.account = kj::str(request.getAccount());
      for (auto role : request.getRoles()) job.roles.add(kj::str(role));
    }
    return jobs;
  }

  void publish(Store& store, kj::ArrayPtr<Job> jobs) {
    Outputs<rpc::PodCertificateSpec> outputs(name());
    for (auto request : store.list<rpc::PodCertificateRequestSpec>()) {
      KJ_IF_MAYBE (answer, store.tryGet<rpc::PodCertificateSpec>(request.id())) {
        if (answer->getNumber() == request.getNumber()) {
          outputs.set(request.id(), *answer);
          continue;
        }
      }
      for (auto& job : jobs) {
        if (job.id != request.id() || job.number != request.getNumber()) continue;
        auto answer = outputs.add(job.id);
        answer.setNumber(job.number);
        answer.setError(job.error);
        if (job.error.size() > 0) continue;
        record(job);
        answer.setCa(job.trusted.asBytes());
        answer.setCertificate(job.certificate.asBytes());
        answer.setNotAfter(dateText(pki::inspect(job.certificate).notAfter));
      }
    }
    outputs.apply(store);
  }
};

}  // namespace

kj::Own<Controller> podCertificateController(ControllerDependencies& deps) {
  return kj::heap<PodCertificateController>(deps);
}

}  // namespace talos::machined
