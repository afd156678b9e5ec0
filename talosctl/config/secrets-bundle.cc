#include "talosctl/config/secrets-bundle.h"

#include <kj/function.h>

#include "common/base/error.h"
#include "common/config/config-reading.h"
#include "common/config/rules/config-check.h"
#include "common/memory/zeroize.h"
#include "common/net/text-values.h"
#include "common/text/ascii.h"
#include "rpc/secrets.capnp.h"

namespace talos::config {
namespace {

constexpr codec::LaterKey kLaterKeys[] = {
    {"cluster"_kj, "v0.12"_kj},
};

void setPair(CertificateAndKey::Builder to, const pki::CertificateAndKey& from) {
  to.setCrt(from.certificate.asBytes());
  to.setKey(from.key.bytes());
}

pki::CertificateAndKey pairOf(CertificateAndKey::Reader from) {
  return {kj::heapString(from.getCrt().asChars()),
          pki::Pem(kj::heapString(from.getKey().asChars()))};
}

void check(Report& report, SecretsBundle::Reader bundle) {
  auto secrets = bundle.getSecrets();
  auto bootstrap = secrets.getBootstraptoken();
  if (bootstrap.size() > 0 && !isVisible(bootstrap)) {
    report.error("secrets.bootstraptoken", kj::str("must be visible ASCII characters"), kTokenForm);
  } else if (bootstrap.size() > 0 && !isToken(bootstrap)) {
    report.warn("secrets.bootstraptoken", kj::str(kTokenOfAnotherForm), kTokenForm);
  }
  report.aescbcKey("secrets.aescbcencryptionsecret", secrets.getAescbcencryptionsecret());
  report.secretboxKey("secrets.secretboxencryptionsecret", secrets.getSecretboxencryptionsecret());
  auto keys =
      secrets.getAescbcencryptionsecret().size() + secrets.getSecretboxencryptionsecret().size();
  if (report.has("secrets") && keys == 0) {
    report.error("secrets.aescbcencryptionsecret", kj::str("required key is missing"),
                 "set it or secretboxencryptionsecret");
  }
  auto certs = bundle.getCerts();
  auto authority = [&](kj::StringPtr name, bool given, CertificateAndKey::Reader pair) {
    if (!given) return;
    auto path = kj::str("certs.", name);
    auto need = [&](kj::StringPtr part, size_t size) {
      if (size == 0) report.error(kj::str(path, ".", part), kj::str("required key is missing"));
    };
    need("crt", pair.getCrt().size());
    need("key", pair.getKey().size());
    if (pair.getCrt().size() > 0 && pair.getKey().size() > 0)
      report.authority(path, pair, Report::Key::kNeeded);
  };
  authority("etcd", certs.hasEtcd(), certs.getEtcd());
  authority("k8s", certs.hasK8s(), certs.getK8s());
  authority("k8saggregator", certs.hasK8saggregator(), certs.getK8saggregator());
  authority("os", certs.hasOs(), certs.getOs());
  if (certs.hasK8sserviceaccount()) {
    pki::Pem key(kj::heapString(certs.getK8sserviceaccount().getKey().asChars()));
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { pki::toPkcs8(key); })) {
      report.error("certs.k8sserviceaccount.key", messageOf(*e));
    }
  }
}

[[noreturn]] void refuse(const Problems& problems) {
  auto lines = render(problems);
  fail(ErrorKind::kInvalidArgument, kj::str(lines.slice(0, lines.size() - 1)));
}

bool hasAnyOf(kj::StringPtr text, kj::StringPtr characters) {
  for (char c : text) {
    if (characters.findFirst(c) != nullptr) return true;
  }
  return false;
}

void collectWarnings(const Problems& problems, kj::Maybe<kj::Vector<kj::String>&> to) {
  KJ_IF_MAYBE (warnings, to) *warnings = warningsOf(problems);
}

}  // namespace

kj::Vector<kj::String> warningsOf(const Problems& problems) {
  kj::Vector<kj::String> lines;
  for (auto& p : problems) {
    if (p.severity != Problem::Severity::kWarning) continue;
    Problem bare{Problem::Severity::kError, kj::str(p.file),    p.line,         p.column,
                 kj::str(p.path),           kj::str(p.message), kj::str(p.hint)};
    lines.add(bare.toString());
  }
  return lines;
}

kj::String writeSecrets(const Secrets& from) {
  SecretMessage message;
  auto root = message.initRoot<SecretsBundle>();
  auto secrets = root.initSecrets();
  secrets.setBootstraptoken(kj::StringPtr(from.clusterToken));
  secrets.setAescbcencryptionsecret(kj::StringPtr(from.encryptionSecret));
  secrets.setSecretboxencryptionsecret(kj::StringPtr(from.secretboxSecret));
  root.initTrustdinfo().setToken(kj::StringPtr(from.machineToken));
  auto certs = root.initCerts();
  setPair(certs.initEtcd(), from.etcdAuthority);
  setPair(certs.initK8s(), from.kubernetesAuthority);
  if (from.aggregatorAuthority.certificate.size() > 0)
    setPair(certs.initK8saggregator(), from.aggregatorAuthority);
  if (from.serviceAccountKey.bytes().size() > 0)
    certs.initK8sserviceaccount().setKey(from.serviceAccountKey.bytes());
  setPair(certs.initOs(), from.machineAuthority);
  return codec::writeYaml(root.asReader(), {.empties = codec::Empties::kOmit, .comments = true});
}

Secrets readSecrets(kj::StringPtr text, kj::StringPtr file,
                    kj::Maybe<kj::Vector<kj::String>&> warnings) {
  SecretMessage message;
  auto root = message.initRoot<SecretsBundle>();
  Problems problems;
  codec::Places places;
  codec::ReadOptions options{.file = file, .laterKeys = kLaterKeys};
  codec::readYaml(text, root, problems, options, &places);
  Report report(places, file, problems);
  check(report, root.asReader());
  if (hasErrors(problems)) refuse(problems);
  collectWarnings(problems, warnings);

  auto bundle = root.asReader();
  auto certs = bundle.getCerts();
  Secrets secrets;
  secrets.machineAuthority = pairOf(certs.getOs());
  secrets.etcdAuthority = pairOf(certs.getEtcd());
  secrets.kubernetesAuthority = pairOf(certs.getK8s());
  if (certs.hasK8saggregator()) secrets.aggregatorAuthority = pairOf(certs.getK8saggregator());
  if (certs.hasK8sserviceaccount()) {
    secrets.serviceAccountKey =
        pki::Pem(kj::heapString(certs.getK8sserviceaccount().getKey().asChars()));
  }
  secrets.machineToken = pki::Pem(kj::str(bundle.getTrustdinfo().getToken()));
  secrets.clusterToken = pki::Pem(kj::str(bundle.getSecrets().getBootstraptoken()));
  secrets.encryptionSecret = pki::Pem(kj::str(bundle.getSecrets().getAescbcencryptionsecret()));
  secrets.secretboxSecret = pki::Pem(kj::str(bundle.getSecrets().getSecretboxencryptionsecret()));
  return secrets;
}

void adoptKubernetesPki(Secrets& secrets, kj::Function<kj::String(kj::StringPtr path)> read) {
  auto checked = [](kj::StringPtr path, auto&& use) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { use(); }))
      fail(ErrorKind::kInvalidArgument, kj::str(path, ": ", messageOf(*e)));
  };
  auto authority = [&](kj::StringPtr crt, kj::StringPtr key) {
    pki::CertificateAndKey pair{read(crt), pki::Pem(read(key))};
    checked(crt, [&]() {
      if (!pki::inspect(pair.certificate).authority) {
        fail(ErrorKind::kInvalidArgument, "not a CA certificate (CA:true is missing)");
      }
    });
    checked(key, [&]() { pki::checkPair(pair.certificate, pair.key); });
    return pair;
  };
  secrets.kubernetesAuthority = authority("ca.crt", "ca.key");
  secrets.etcdAuthority = authority("etcd/ca.crt", "etcd/ca.key");
  secrets.aggregatorAuthority = authority("front-proxy-ca.crt", "front-proxy-ca.key");
  secrets.serviceAccountKey = pki::Pem(read("sa.key"));
  checked("sa.key", [&]() { pki::toPkcs8(secrets.serviceAccountKey); });
}

Secrets secretsFrom(kj::ArrayPtr<const char> text, kj::StringPtr file,
                    kj::Maybe<kj::Vector<kj::String>&> warnings) {
  auto config = parse(text, file);
  auto problems = problemsOfKept(config, file);
  if (hasErrors(problems)) refuse(problems);
  collectWarnings(problems, warnings);
  auto machine = config.get().getMachine();
  auto cluster = config.get().getCluster();
  if (!isControlPlane(machine.getType())) {
    fail(ErrorKind::kInvalidArgument,
         kj::str(file,
                 ": the config of a worker does not have the secrets of the cluster; use that "
                 "of a control-plane node"));
  }
  kj::Vector<kj::StringPtr> missing;
  auto need = [&](kj::StringPtr path, size_t size) {
    if (size == 0) missing.add(path);
  };
  need("machine.token", machine.getToken().size());
  need("cluster.token", cluster.getToken().size());
  need("cluster.ca", cluster.getCa().getKey().size());
  need("cluster.etcd.ca", cluster.getEtcd().getCa().getKey().size());
  need("cluster.aescbcEncryptionSecret or cluster.secretboxEncryptionSecret",
       cluster.getAescbcEncryptionSecret().size() + cluster.getSecretboxEncryptionSecret().size());
  // Clusters before v0.9 have neither.
  auto aggregator = cluster.getAggregatorCA().getKey().size();
  auto account = cluster.getServiceAccount().getKey().size();
  if (aggregator + account > 0) {
    need("cluster.aggregatorCA", aggregator);
    need("cluster.serviceAccount.key", account);
  }
  if (missing.size() > 0) {
    fail(ErrorKind::kInvalidArgument,
         kj::str(file, ": the config does not have all secrets of the cluster; missing: ",
                 kj::strArray(missing, ", ")));
  }
  return secretsOf(config.get());
}

void adoptBootstrapToken(Secrets& secrets, kj::StringPtr text,
                         kj::Maybe<kj::Vector<kj::String>&> warnings) {
  constexpr kj::StringPtr kBetween = " \t\r\n\"'=,"_kj;
  kj::Maybe<kj::String> found;
  KJ_DEFER(KJ_IF_MAYBE (token, found) zeroize(*token));
  for (size_t begin = 0, i = 0; i <= text.size(); ++i) {
    if (i < text.size() && kBetween.findFirst(text[i]) == nullptr) continue;
    auto word = kj::heapString(text.slice(begin, i));
    begin = i + 1;
    KJ_DEFER(zeroize(word));
    if (!isToken(word)) continue;
    KJ_IF_MAYBE (other, found) {
      if (*other != word)
        fail(ErrorKind::kInvalidArgument, "two bootstrap tokens are given; use one of them");
    }
    found = kj::str(word);
  }
  auto alone = kj::heapString(trimmed(text));
  KJ_DEFER(zeroize(alone));
  KJ_IF_MAYBE (token, found) {
    secrets.clusterToken = pki::Pem(kj::str(*token));
  } else if (isVisible(alone) && !hasAnyOf(alone, kBetween)) {
    secrets.clusterToken = pki::Pem(kj::str(alone));
    KJ_IF_MAYBE (list, warnings) list->add(kj::str(kTokenOfAnotherForm, "; ", kTokenForm));
  } else {
    fail(ErrorKind::kInvalidArgument, kj::str("not a valid bootstrap token; ", kTokenForm));
  }
}

}  // namespace talos::config
