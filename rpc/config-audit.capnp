@0xa8f16c0d2be94735;
# cluster.apiServer.auditPolicy of the machine config (config.capnp): audit.k8s.io/v1 of Kubernetes, with the same keys.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::config");
using A = import "annotations.capnp";

struct AuditPolicy {
  apiVersion @0 :Text $A.required $A.doc("Version of the policy. The only valid version is audit.k8s.io/v1.");
  kind @1 :Text $A.required $A.doc("Kind of the policy. The only valid kind is Policy.");
  metadata @2 :Text $A.raw $A.noEffect("remove it") $A.doc("Name and labels of the policy, which the API server does not read.");
  omitStages @3 :List(AuditStage) $A.doc("Stages of a request for which there are no events, in all rules.");
  omitManagedFields @4 :Bool $A.default("false")
      $A.doc("Leave managedFields out of the bodies of requests and responses.");
  rules @5 :List(AuditRule) $A.required $A.doc("Rules. The first one that matches a request decides.");
}

struct AuditRule {
  level @0 :AuditLevel $A.keepEmpty $A.required
      $A.doc("Content of the event: None writes no event; Metadata has the user, the resource and the result; Request has "
             "the body of the request, too; RequestResponse has both bodies.");
  users @1 :List(Text) $A.default("all") $A.doc("Users.");
  userGroups @2 :List(Text) $A.default("all") $A.doc("Groups, one of which the user is in.");
  verbs @3 :List(Text) $A.default("all") $A.doc("Verbs, such as get or create.");
  resources @4 :List(AuditResources) $A.default("all") $A.doc("Kinds of resources.");
  namespaces @5 :List(Text) $A.default("all") $A.doc("Namespaces of the resources. The empty text is for those without a namespace.");
  nonResourceURLs @6 :List(Text)
      $A.doc("Paths that are no resources, such as /healthz*. A * may be at the end only. Not together with resources and "
             "namespaces.");
  omitStages @7 :List(AuditStage) $A.doc("Stages of a request for which there are no events, besides those of the policy.");
  omitManagedFields @8 :AuditOmission $A.default("as in the policy") $A.doc("Leave managedFields out of bodies, for this rule.");
}

struct AuditResources {
  group @0 :Text $A.default("the group without a name, of pods and other core resources") $A.doc("API group.");
  resources @1 :List(Text) $A.default("all")
      $A.doc("Resources of the group, such as pods, pods/log, pods/* for all that is below pods, or */scale.");
  resourceNames @2 :List(Text) $A.default("all") $A.doc("Names of the objects. They need resources.");
}

enum AuditLevel $A.noun("audit level") {
  none @0 $A.name("None");
  metadata @1 $A.name("Metadata");
  request @2 $A.name("Request");
  requestResponse @3 $A.name("RequestResponse");
}

enum AuditStage $A.noun("audit stage") {
  requestReceived @0 $A.name("RequestReceived");
  responseStarted @1 $A.name("ResponseStarted");
  responseComplete @2 $A.name("ResponseComplete");
  panic @3 $A.name("Panic");
}

enum AuditOmission $A.noun("choice") {
  inherited @0;
  yes @1 $A.name("true");
  no @2 $A.name("false");
}
