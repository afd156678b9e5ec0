// The wire format of Kubernetes' API: paths of resources, answers that are errors, pages of lists,
// lines of watches. Pure; every reader accepts foreign bytes.
#pragma once

#include <kj/exception.h>
#include <kj/time.h>

#include "common/kube/json.h"

namespace talos::kube {

// A kind of object, as discovery describes it.
struct Resource {
  kj::String group;    // empty: the core group
  kj::String version;  // v1
  kj::String plural;   // its name in paths: daemonsets
  kj::String kind;     // DaemonSet
  bool namespaced = true;

  Resource clone() const;
  // "v1", "apps/v1".
  kj::String apiVersion() const;
};

Resource coreResource(kj::StringPtr plural, kj::StringPtr kind, bool namespaced = true);
Resource appsResource(kj::StringPtr plural, kj::StringPtr kind);
Resource certificateRequests();  // of certificates.k8s.io/v1
Resource roleBindings();         // ClusterRoleBindings

// Group and version of "apps/v1" or "v1". InvalidArgument for what is neither.
struct GroupVersion {
  kj::String group, version;
};
GroupVersion readApiVersion(kj::StringPtr text);

// "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"; without a name: all of them;
// without a namespace: of all namespaces. Every part is encoded.
kj::String pathOf(const Resource& resource, kj::StringPtr nameSpace, kj::StringPtr name = "",
                  kj::StringPtr subresource = "");
// "/apis/apps/v1", where the resources of a group and version are listed.
kj::String pathOf(const GroupVersion& groupVersion);
// Appends "?key=value", or "&key=value" behind another one.
void addQuery(kj::String& path, kj::StringPtr key, kj::StringPtr value);

// The resource of a kind in the answer to pathOf(GroupVersion); none: the group does not have it.
kj::Maybe<Resource> resourceOf(const Json& discovery, const GroupVersion& groupVersion,
                               kj::StringPtr kind);

// "policy/v1" of the answer about v1: how pods are evicted there; none: they are not.
kj::Maybe<kj::String> evictionVersionOf(const Json& discovery);
// The body of an eviction, without its apiVersion. Another pod of this name is not meant. Without
// `grace` the pod has its own.
Json evictionOf(kj::StringPtr nameSpace, kj::StringPtr name, kj::StringPtr uid,
                kj::Maybe<kj::Duration> grace);

// The error of an answer with an HTTP status of 400 or more, with the message of its Status object
// if it has one. Kinds: NotFound, Conflict (also: exists already, or too old for a watch),
// PermissionDenied, Unauthenticated, InvalidArgument, ResourceExhausted (429), Unavailable (5xx).
// `doing`: "get nodes/master-1".
kj::Exception errorOf(unsigned status, kj::StringPtr statusText, kj::ArrayPtr<const char> body,
                      kj::StringPtr doing);
// A field that an apply would change, and that another manager has set to another value.
struct FieldConflict {
  kj::String manager;  // kubectl-edit; empty: not said
  kj::String field;    // .spec.template.spec.containers[name="coredns"].image
};
// Of an answer with the status 409; empty: it is about something else.
kj::Vector<FieldConflict> conflictsOf(kj::ArrayPtr<const char> body);
// The checks that failed by the answer of /readyz or /healthz: "[-]etcd failed: …"; empty: it names
// none. At most kMostFailedChecks bytes.
constexpr size_t kMostFailedChecks = 500;
kj::String failedChecks(kj::ArrayPtr<const char> body);
// True when the answer says that the object to be created exists already.
bool saysAlreadyExists(unsigned status, kj::ArrayPtr<const char> body);
// Seconds, as Retry-After has them; none for what is no such number. At most a minute.
kj::Maybe<kj::Duration> readRetryAfter(kj::StringPtr header);

struct WatchEvent {
  enum class Type { kAdded, kModified, kDeleted, kBookmark };
  Type type;
  Json object;
};
// A line of a watch. Conflict when the version to watch from is too old; other
// errors as errorOf() has them.
WatchEvent readWatchEvent(kj::ArrayPtr<const char> line);

// Puts bytes that come piece by piece together to lines.
class LineAssembler {
 public:
  // `name`: of a line, for the error.
  explicit LineAssembler(size_t longest, kj::StringPtr name = "a line")
      : longest(longest), name(name) {}
  // The lines that are complete with it, without their ends, empty ones left out.
  // ResourceExhausted when one is longer than the longest.
  kj::Vector<kj::String> add(kj::ArrayPtr<const char> piece);

 private:
  size_t longest;
  kj::StringPtr name;
  kj::Vector<char> begun;
};

}  // namespace talos::kube
