"""Terraform for Azure: network, server (or spot), disk, storage, secrets by reference, balancer
before a service, and an end by itself."""

from __future__ import annotations

from rightfit.exports.bare_server import (
    CHECKPOINTS_FOLDER,
    OVERWRITTEN_DAYS,
    Ground,
    account_hash,
    first_boot,
    own_bucket,
    problem,
    replaced,
    run_words,
    user_data,
    variable,
)
from rightfit.exports.bare_server import variables as common_variables
from rightfit.exports.buckets import BUCKET
from rightfit.exports.job import Job
from rightfit.exports.quoting import hcl
from rightfit.exports.registry import Files, Target
from rightfit.exports.stack import has_amd_cards, stack_of
from rightfit.exports.waiting import terraform_way, wait_files

PROVIDER_VERSION = "~> 4.55"
PUBLISHER, OFFER = "microsoft-dsvm", "ubuntu-hpc"
"""Images with Docker and the driver of the cards. From memory: the user can give their version."""
ADMINISTRATOR = "rightfit"
IDENTITY = "http://169.254.169.254/metadata"


def image_sku(job: Job) -> str:
    """The image with the driver of the plan's cards: there is one for each maker."""
    return "2204-rocm" if has_amd_cards(job) else "2204"


def write(job: Job) -> Files:
    """main.tf, variables.tf, outputs.tf and the first boot's script."""
    return {
        "main.tf": main(job),
        "variables.tf": variables(job),
        "outputs.tf": outputs(job),
        "first-boot.sh": boot(job),
        **wait_files(job, terraform_way(job)),
    }


def boot(job: Job) -> str:
    """Secrets come from the key vault and checkpoints go to the storage account, both by the
    server's own identity. A server that is only shut down still costs, so it asks to be
    deallocated."""
    token = (
        "curl -sf -H Metadata:true "
        f"'{IDENTITY}/identity/oauth2/token?api-version=2018-02-01&resource={{}}'"
        " | python3 -c 'import json, sys; print(json.load(sys.stdin)[\"access_token\"])'"
    )
    take = " | python3 -c 'import json, sys; print(json.load(sys.stdin)[\"value\"])'"

    def secret(name: str) -> str:
        address = f'"https://${{RIGHTFIT_VAULT:?}}.vault.azure.net/secrets/{vault_name(name)}?api-version=7.4"'
        return f'curl -sf -H "Authorization: Bearer $({token.format("https%3A%2F%2Fvault.azure.net")})" {address}{take}'

    end = (
        f"self=$(curl -sf -H Metadata:true '{IDENTITY}/instance/compute/resourceId?api-version=2021-02-01&format=text')\n"
        f'curl -sf -X POST -d "" -H "Authorization: Bearer $({token.format("https%3A%2F%2Fmanagement.azure.com%2F")})" '
        '"https://management.azure.com${self}/deallocate?api-version=2024-07-01"'
    )
    return first_boot(job, Ground(secret=secret, end=end, store=STORE))


STORE = (
    f""":azureblob,account="$(printf %s "${BUCKET}" | cut -d / -f 3 | cut -d . -f 1)",use_msi=true,no_check_container=true:"""
    f""""$(printf %s "${BUCKET}" | cut -d / -f 4-)\""""
)
"""Account and container of an address https://ACCOUNT.blob.core.windows.net/CONTAINER/PATH."""
VAULT_WORDS = ("export RIGHTFIT_VAULT='${split(\"/\", var.key_vault_id)[8]}'",)


def vault_name(name: str) -> str:
    """Names of secrets have hyphens there."""
    return "rightfit-" + name.replace("_", "-")


def own_account(job: Job) -> str:
    """The user's storage account; "" where one is made."""
    return own_bucket(job).partition(".")[0]


def container_of(job: Job) -> str:
    """The user's container (and path) in it."""
    return own_bucket(job).partition("/")[2] or CHECKPOINTS_FOLDER


def made_account(job: Job) -> str:
    """A Terraform template: 24 letters and digits at most, one list for all the world."""
    return f"rf{job.plan_id}${{{account_hash('data.azurerm_client_config.me.subscription_id')}}}"


def variables(job: Job) -> str:
    """What the user may change."""
    vault = variable("key_vault_id", "Resource id of the key vault that holds the secrets.")
    key = variable("ssh_public_key", "Public SSH key of the administrator.")
    version = variable("image_version", "Version of the image; latest takes the newest.", default="latest")
    account = variable("account", "Storage account of yours for checkpoints; empty makes one.", default=own_account(job))
    kept = () if job.is_service else (account,)
    return common_variables(job, vault, key, version, *kept, bucket=container_of(job), about="Container (and path) in the account.")


def outputs(job: Job) -> str:
    """Where the server and the service are."""
    balancer = '\noutput "service_address" {\n  value = azurerm_public_ip.service.ip_address\n}\n' if job.is_service else ""
    return 'output "servers" {\n  value = azurerm_linux_virtual_machine.server[*].name\n}\n' + (
        balancer or '\noutput "bucket" {\n  value = local.address\n}\n'
    )


def main(job: Job) -> str:
    """The resources."""
    option, tags = job.option, hcl(job.labels)
    spot = f"""
  priority        = "Spot"
  eviction_policy = {hcl("Deallocate" if job.is_service else "Delete")}
  max_bid_price   = -1
"""
    return f"""# {job.name}: plan {job.plan_id}
terraform {{
  required_version = ">= 1.5"
  required_providers {{
    azurerm = {{
      source  = "hashicorp/azurerm"
      version = {hcl(PROVIDER_VERSION)}
    }}
  }}
}}

provider "azurerm" {{
  features {{
  }}
}}

resource "azurerm_resource_group" "all" {{
  name     = var.name
  location = {hcl(option.region)}
  tags     = {tags}
}}

resource "azurerm_virtual_network" "net" {{
  name                = var.name
  location            = azurerm_resource_group.all.location
  resource_group_name = azurerm_resource_group.all.name
  address_space       = ["10.60.0.0/16"]
  tags                = {tags}
}}

resource "azurerm_subnet" "part" {{
  name                 = "servers"
  resource_group_name  = azurerm_resource_group.all.name
  virtual_network_name = azurerm_virtual_network.net.name
  address_prefixes     = ["10.60.0.0/24"]
}}

resource "azurerm_network_security_group" "server" {{
  name                = "${{var.name}}-server"
  location            = azurerm_resource_group.all.location
  resource_group_name = azurerm_resource_group.all.name
  tags                = {tags}
}}

resource "azurerm_network_security_rule" "ssh" {{
  count                       = var.ssh_cidr == "" ? 0 : 1
  name                        = "ssh"
  priority                    = 100
  direction                   = "Inbound"
  access                      = "Allow"
  protocol                    = "Tcp"
  source_port_range           = "*"
  source_address_prefix       = var.ssh_cidr
  destination_port_range      = "22"
  destination_address_prefix  = "*"
  resource_group_name         = azurerm_resource_group.all.name
  network_security_group_name = azurerm_network_security_group.server.name
}}

resource "azurerm_subnet_network_security_group_association" "server" {{
  subnet_id                 = azurerm_subnet.part.id
  network_security_group_id = azurerm_network_security_group.server.id
}}

resource "azurerm_public_ip" "server" {{
  count               = {option.nodes}
  name                = "${{var.name}}-${{count.index}}"
  location            = azurerm_resource_group.all.location
  resource_group_name = azurerm_resource_group.all.name
  allocation_method   = "Static"
  sku                 = "Standard"
  tags                = {tags}
}}

resource "azurerm_network_interface" "server" {{
  count               = {option.nodes}
  name                = "${{var.name}}-${{count.index}}"
  location            = azurerm_resource_group.all.location
  resource_group_name = azurerm_resource_group.all.name
  tags                = {tags}
  ip_configuration {{
    name                          = "first"
    subnet_id                     = azurerm_subnet.part.id
    private_ip_address_allocation = "Dynamic"
    public_ip_address_id          = azurerm_public_ip.server[count.index].id
  }}
}}

resource "azurerm_linux_virtual_machine" "server" {{
  count                           = {option.nodes}
  name                            = "${{var.name}}-${{count.index}}"
  location                        = azurerm_resource_group.all.location
  resource_group_name             = azurerm_resource_group.all.name
  size                            = {hcl(option.instance_type)}
  network_interface_ids           = [azurerm_network_interface.server[count.index].id]
  admin_username                  = {hcl(ADMINISTRATOR)}
  disable_password_authentication = true
  custom_data                     = base64encode({user_data(job, bucket="local.address", before=VAULT_WORDS)})
  tags                            = {tags}
{spot if job.is_spot else ""}
  admin_ssh_key {{
    username   = {hcl(ADMINISTRATOR)}
    public_key = var.ssh_public_key
  }}

  identity {{
    type = "SystemAssigned"
  }}

  os_disk {{
    caching              = "ReadWrite"
    storage_account_type = "Premium_LRS"
    disk_size_gb         = {job.disk_gib}
  }}

  source_image_reference {{
    publisher = {hcl(PUBLISHER)}
    offer     = {hcl(OFFER)}
    sku       = {hcl(image_sku(job))}
    version   = var.image_version
  }}
{replaced(job)}}}

resource "azurerm_role_assignment" "secrets" {{
  count                = {option.nodes}
  scope                = var.key_vault_id
  role_definition_name = "Key Vault Secrets User"
  principal_id         = azurerm_linux_virtual_machine.server[count.index].identity[0].principal_id
}}

resource "azurerm_role_assignment" "itself" {{
  count                = {option.nodes}
  scope                = azurerm_linux_virtual_machine.server[count.index].id
  role_definition_name = "Virtual Machine Contributor"
  principal_id         = azurerm_linux_virtual_machine.server[count.index].identity[0].principal_id
}}
{run_words(job)}{balancer(job) if job.is_service else bucket(job)}"""


def bucket(job: Job) -> str:
    """Where checkpoints go: a container of the user's account, which must be one of the
    subscription's, or of an account that is made. That lies in a group of its own, since a group
    that is destroyed takes with it whatever is in it."""
    return f"""
locals {{
  account    = var.account == "" ? azurerm_storage_account.checkpoints[0].name : var.account
  account_id = var.account == "" ? azurerm_storage_account.checkpoints[0].id : data.azurerm_resources.account[0].resources[0].id
  container  = var.account == "" ? azurerm_storage_container.checkpoints[0].name : var.bucket
  address    = "https://${{local.account}}.blob.core.windows.net/${{local.container}}"
}}

data "azurerm_client_config" "me" {{
}}

data "azurerm_resources" "account" {{
  count = var.account == "" ? 0 : 1
  type  = "Microsoft.Storage/storageAccounts"
  name  = var.account
}}

resource "azurerm_resource_group" "kept" {{
  count    = var.account == "" ? 1 : 0
  name     = "${{var.name}}-kept"
  location = {hcl(job.option.region)}
  tags     = {hcl(job.labels)}
}}

resource "azurerm_storage_account" "checkpoints" {{
  count                           = var.account == "" ? 1 : 0
  name                            = "{made_account(job)}"
  location                        = azurerm_resource_group.kept[0].location
  resource_group_name             = azurerm_resource_group.kept[0].name
  account_tier                    = "Standard"
  account_replication_type        = "LRS"
  allow_nested_items_to_be_public = false
  min_tls_version                 = "TLS1_2"
  tags                            = {hcl(job.labels)}
  blob_properties {{
    # What was overwritten or deleted can be had back so long.
    delete_retention_policy {{
      days = {OVERWRITTEN_DAYS}
    }}
    container_delete_retention_policy {{
      days = {OVERWRITTEN_DAYS}
    }}
  }}
}}

resource "azurerm_storage_container" "checkpoints" {{
  count                 = var.account == "" ? 1 : 0
  name                  = {hcl(CHECKPOINTS_FOLDER)}
  storage_account_id    = azurerm_storage_account.checkpoints[0].id
  container_access_type = "private"
}}

resource "azurerm_role_assignment" "checkpoints" {{
  count                = {job.num_nodes}
  scope                = local.account_id
  role_definition_name = "Storage Blob Data Contributor"
  principal_id         = azurerm_linux_virtual_machine.server[count.index].identity[0].principal_id
}}
"""


def balancer(job: Job) -> str:
    """The balancer passes addresses on, so the servers' own security group lets in one range of
    clients and the balancer's probes."""
    stack = stack_of(job)
    rule = """
resource "azurerm_network_security_rule" "{name}" {{
  count                       = {count}
  name                        = "{name}"
  priority                    = {priority}
  direction                   = "Inbound"
  access                      = "{access}"
  protocol                    = "Tcp"
  source_port_range           = "*"
  source_address_prefix       = {source}
  destination_port_range      = {port}
  destination_address_prefix  = "*"
  resource_group_name         = azurerm_resource_group.all.name
  network_security_group_name = azurerm_network_security_group.server.name
}}
"""
    port = hcl(str(stack.port))
    clients = rule.format(
        name="clients", count='var.client_cidr == "" ? 0 : 1', priority=110, access="Allow", source="var.client_cidr", port=port
    )
    probes = rule.format(name="probes", count="1", priority=120, access="Allow", source='"AzureLoadBalancer"', port=port)
    return f"""{clients}{probes}
resource "azurerm_public_ip" "service" {{
  name                = "${{var.name}}-service"
  location            = azurerm_resource_group.all.location
  resource_group_name = azurerm_resource_group.all.name
  allocation_method   = "Static"
  sku                 = "Standard"
  tags                = {hcl(job.labels)}
}}

resource "azurerm_lb" "service" {{
  name                = var.name
  location            = azurerm_resource_group.all.location
  resource_group_name = azurerm_resource_group.all.name
  sku                 = "Standard"
  tags                = {hcl(job.labels)}
  frontend_ip_configuration {{
    name                 = "public"
    public_ip_address_id = azurerm_public_ip.service.id
  }}
}}

resource "azurerm_lb_backend_address_pool" "service" {{
  name            = "servers"
  loadbalancer_id = azurerm_lb.service.id
}}

resource "azurerm_network_interface_backend_address_pool_association" "service" {{
  count                   = {job.num_nodes}
  network_interface_id    = azurerm_network_interface.server[count.index].id
  ip_configuration_name   = "first"
  backend_address_pool_id = azurerm_lb_backend_address_pool.service.id
}}

resource "azurerm_lb_probe" "service" {{
  name            = "health"
  loadbalancer_id = azurerm_lb.service.id
  protocol        = "Http"
  port            = {stack.port}
  request_path    = {hcl(stack.health_path)}
}}

resource "azurerm_lb_rule" "service" {{
  name                           = "http"
  loadbalancer_id                = azurerm_lb.service.id
  protocol                       = "Tcp"
  frontend_port                  = 80
  backend_port                   = {stack.port}
  frontend_ip_configuration_name = "public"
  backend_address_pool_ids       = [azurerm_lb_backend_address_pool.service.id]
  probe_id                       = azurerm_lb_probe.service.id
  idle_timeout_in_minutes        = 10
  disable_outbound_snat          = true
}}
"""


TARGET = Target(
    "terraform-azure",
    "launch",
    "Terraform for Azure",
    write,
    lambda job: problem(job, "azure"),
    checked_by="terraform's own parser; every attribute against the schema of the provider",
)
