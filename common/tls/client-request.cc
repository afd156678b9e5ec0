#include "common/tls/client-request.h"

#include <openssl/err.h>

#include "common/base/error.h"
#include "common/tls/openssl.h"

namespace talos::pki {
namespace {

// Returns true if each is in a separate RDN, as UTF-8: parsers differ on other types of string.
bool isOneOfEach(const X509_NAME* subject) {
  if (X509_NAME_entry_count(subject) != 2) return false;
  bool organization = false, name = false;
  for (int i = 0; i < 2; ++i) {
    auto* entry = X509_NAME_get_entry(subject, i);
    if (X509_NAME_ENTRY_set(entry) != i) return false;
    if (ASN1_STRING_type(X509_NAME_ENTRY_get_data(entry)) != V_ASN1_UTF8STRING) return false;
    int nid = OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry));
    organization = organization || nid == NID_organizationName;
    name = name || nid == NID_commonName;
  }
  return organization && name;
}

}  // namespace

void requireOneReading(kj::StringPtr requestPem) {
  KJ_DEFER(ERR_clear_error());
  auto request = readRequest(requestPem);
  if (!isOneOfEach(X509_REQ_get_subject_name(request.get()))) {
    fail(ErrorKind::kInvalidArgument,
         "the subject of the request is something else than one organization and one common name");
  }
  if (writeRequest(request.get()) != requestPem) {
    fail(ErrorKind::kInvalidArgument,
         "the text of the request is not as this system writes it, in one PEM block");
  }
}

}  // namespace talos::pki
